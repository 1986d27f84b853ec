import { BASE_PATHS } from "@sallyport/api";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type EntityKind, entityKinds, type SampleReferences } from "./testing/field-samples.ts";
import { sampleReferences } from "./testing/sample-references.ts";
import { startTestController, type TestController } from "./testing/test-controller.ts";

let c: TestController;
let references: SampleReferences;
let token: string;
beforeAll(async () => {
  c = await startTestController();
  references = await sampleReferences(c);
  token = await c.login("admin", "admin");
});
afterAll(() => c?.close());

const NOWHERE = new Proxy({} as SampleReferences, { get: () => () => "" });
const managed = (s: SampleReferences) => entityKinds(s).filter(({ api }) => api === "management");
const titleOf = ({ collection, variant = "" }: EntityKind) => `${collection} ${variant}`.trim();

const ask = (method: string, path: string, body?: unknown, ifMatch?: string) =>
  c.call(method, `${BASE_PATHS.management}/${path}`, {
    token,
    ...(body !== undefined && { body }),
    ...(ifMatch !== undefined && { headers: { "if-match": ifMatch } }),
  });

const PREFERRING = { headers: { prefer: "respond-async, etag" } };

async function versionOf(path: string): Promise<string> {
  expect((await ask("GET", path)).headers.etag).toBeUndefined();
  const { etag } = (await c.call("GET", `${BASE_PATHS.management}/${path}`, { token, ...PREFERRING })).headers;
  expect(etag).toMatch(/^"[^"]+"$/);
  return String(etag);
}

const tagged = (kind: EntityKind, value: string) => ({ ...kind.patch, tags: { value } });

describe.each(managed(NOWHERE).map(titleOf))("one of %s", (title) => {
  let kind: EntityKind;
  let path: string;
  let base: Record<string, unknown>;
  beforeAll(async () => {
    kind = managed(references).find((each) => titleOf(each) === title) as EntityKind;
    base = { ...kind.base(`versions of ${title}`) };
    path = `${kind.collection}/${await c.make(kind.collection, base)}`;
    for (const field of kind.onlyAtCreation ?? []) delete base[field];
  });

  test("has another version after each change, also one that sets what is there", async () => {
    const versions = [await versionOf(path)];
    for (const value of ["a", "b", "b"]) {
      expect((await ask("PATCH", path, tagged(kind, value))).status).toBe(200);
      versions.push(await versionOf(path));
    }
    expect(new Set(versions).size).toBe(4);
    expect(await versionOf(path)).toBe(versions.at(-1));
  });

  test("is changed for the current version only: of two changes at once, one is refused", async () => {
    const version = await versionOf(path);
    const answers = await Promise.all(
      ["mine", "theirs"].map((value) => ask("PATCH", path, tagged(kind, value), version)),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 412]);
    const refused = answers.find(({ status }) => status === 412);
    expect(refused?.json.error).toMatchObject({
      code: "PRECONDITION_FAILED",
      cause: { code: "UNHANDLED", message: expect.stringContaining("was changed since it was read") },
    });
    const kept = answers[0]?.status === 200 ? "mine" : "theirs";
    expect((await ask("GET", path)).json.data.tags).toEqual({ value: kept });
    for (const stale of [version, `W/${await versionOf(path)}`, "garbage"]) {
      expect((await ask("PUT", path, { ...base, tags: { value: "late" } }, stale)).status).toBe(412);
      expect((await ask("DELETE", path, undefined, stale)).status).toBe(412);
    }
    expect((await ask("GET", path)).json.data.tags).toEqual({ value: kept });
  });

  test("is changed and deleted for its current version, one of several, or any", async () => {
    const one = await ask("PUT", path, { ...base, tags: { value: "1" } }, `"0", ${await versionOf(path)}`);
    expect([one.status, one.text]).toEqual([200, expect.anything()]);
    expect((await ask("PATCH", path, tagged(kind, "2"), "*")).status).toBe(200);
    expect((await ask("GET", path)).json.data.tags).toEqual({ value: "2" });
    expect((await ask("DELETE", path, undefined, await versionOf(path))).status).toBe(200);
    const gone = await ask("PATCH", path, tagged(kind, "3"), '"0"');
    expect([gone.status, gone.json.error.code]).toEqual([404, "NOT_FOUND"]);
  });
});

test("an authenticator is changed for its current version only", async () => {
  const id = await c.make("authenticators", {
    ...{ method: "updb", identityId: references.identity, username: "versions", password: "a good password" },
  });
  const path = `authenticators/${id}`;
  const version = await versionOf(path);
  expect((await ask("PATCH", path, { username: "first" }, version)).status).toBe(200);
  expect((await ask("PATCH", path, { username: "second" }, version)).status).toBe(412);
  expect((await ask("GET", path)).json.data.username).toBe("first");
});

test("a change of more than the row itself is for the current version only", async () => {
  const version = await versionOf(`services/${references.service}`);
  const change = (configs: readonly string[]) => ask("PATCH", `services/${references.service}`, { configs }, version);
  expect((await change([references.config])).status).toBe(200);
  expect((await change([])).status).toBe(412);
  const { json } = await ask("GET", `services/${references.service}`);
  expect(json.data.configs).toEqual([references.config]);
});
