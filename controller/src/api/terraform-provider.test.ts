import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ThirdParty } from "../auth/testing/third-party.ts";
import { ALLOWING } from "./testing/registered-ca.ts";
import { type Resource, resources } from "./testing/terraform-requests.ts";
import { type Answer, startTestController, type TestController } from "./testing/test-controller.ts";

type Body = Readonly<Record<string, unknown>>;

let c: TestController;
let token = "";
let byKind: ReadonlyMap<string, Resource>;

beforeAll(async () => {
  c = await startTestController();
  token = await c.login("admin", "admin");
  const [inviting, signing, own] = await Promise.all(
    ["inviting", "signing", "own"].map((name) => ThirdParty.create(name)),
  );
  const ca = await c.make("cas", { ...ALLOWING, name: "inviting", certPem: inviting?.certPem });
  const signer = await c.make("external-jwt-signers", {
    ...{ name: "signing", issuer: "https://signing.example", audience: "us", enabled: true },
    ...{ certPem: signing?.certPem, kid: "signing" },
  });
  const data = { protocol: "tcp", address: "db.example", port: 1 };
  const config = await c.make("configs", { name: "referred to", configTypeId: "NH5p4FpGR", data });
  const certPem = own?.certPem ?? "";
  byKind = new Map(resources({ ca, signer, config, certPem }).map((each) => [each.kind, each]));
});
afterAll(() => c.close());

/** Its headers are the same for every method. */
function send(method: string, path: string, body?: Body): Promise<Answer> {
  const headers = { "content-type": "application/json" };
  return c.call(method, `/edge/management/v1/${path}`, { token, headers, body });
}

const at = (value: unknown, place: string): unknown =>
  place.split(".").reduce<unknown>((found, name) => (found as Body | undefined)?.[name], value);

/** An update has the same fields as a create but for these. */
const updating = ({ onlyAtCreation = [] }: Resource, body: Body): Body =>
  Object.fromEntries(Object.entries(body).filter(([field]) => !onlyAtCreation.includes(field)));

/** Everything that the provider keeps of an answer is what the configuration says, so that its next plan is empty. */
async function expectEmptyPlan(resource: Resource, id: string, sent: Body): Promise<void> {
  const all: Body = { ...resource.absent, ...sent, ...resource.reads?.(sent) };
  const kept = Object.entries(all).filter(([, value]) => value !== undefined);
  const byFilter = await send("GET", `${resource.collection}?filter=name="${sent.name}"`);
  const byId = await send("GET", `${resource.collection}/${id}`);
  expect([byFilter.status, byId.status]).toEqual([200, 200]);
  for (const read of [byId.json.data, byFilter.json.data[0]]) {
    expect(Object.fromEntries(kept.map(([place]) => [place, at(read, place)]))).toEqual(Object.fromEntries(kept));
  }
}

async function walk(resource: Resource, name: string, created: Body, updated: Body): Promise<void> {
  const { collection, token: place } = resource;
  const first = { name, ...created };
  const made = await send("POST", collection, first);
  expect(made.status, made.text).toBe(201);
  const { id } = made.json.data;
  if (place) expect(at((await send("GET", `${collection}/${id}`)).json.data, place)).toMatch(/^ey/);
  await expectEmptyPlan(resource, id, first);

  const second = { ...updating(resource, updated), name: `${name}.again` };
  const changed = await send(resource.update, `${collection}/${id}`, second);
  expect(changed.status, changed.text).toBe(200);
  await expectEmptyPlan(resource, id, { ...updated, ...second });

  const deleted = await send("DELETE", `${collection}/${id}`);
  expect(deleted.status, deleted.text).toBe(200);
  expect((await send("GET", `${collection}/${id}`)).status).toBe(404);
}

const KINDS = resources({ ca: "", signer: "", config: "", certPem: "" });

describe("what OpenZiti's Terraform provider reads is what it sent", () => {
  const found = (kind: string): Resource => byKind.get(kind) as Resource;

  it.each(KINDS.filter(({ least }) => !least))("$kind", async ({ kind }) => {
    await walk(found(kind), `${kind}.full`, found(kind).full, found(kind).full);
  });

  it.each(KINDS.filter(({ least }) => least))("$kind, with lists that are emptied and filled", async ({ kind }) => {
    const { full, least = {} } = found(kind);
    await walk(found(kind), `${kind}.emptied`, full, least);
    await walk(found(kind), `${kind}.filled`, least, full);
  });
});
