import { EventEmitter, once } from "node:events";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";

let c: TestController;
let n = 0;
let identity = "";
let service = "";
let policy = "";
let token = "";
const removed = new Set<string>();
const changes = new EventEmitter();

beforeAll(async () => {
  c = await startTestController();
  await c.make("edge-routers", { name: "er" });
  const all = { semantic: "AnyOf", edgeRouterRoles: ["#all"] };
  await c.make("edge-router-policies", { name: "all", ...all, identityRoles: ["#all"] });
  await c.make("service-edge-router-policies", { name: "all", ...all, serviceRoles: ["#all"] });
  c.fabricModel.onChange((change) => {
    if (change.kind !== "session-removed") return;
    removed.add(change.token);
    changes.emit("removed");
  });
});
afterAll(() => c.close());

beforeEach(async () => {
  n += 1;
  identity = await c.make("identities", { name: `i${n}`, type: "User", isAdmin: false, roleAttributes: ["users"] });
  await c.make("authenticators", { identityId: identity, method: "updb", username: `user-${n}`, password: "password" });
  service = await c.make("services", { name: `s${n}`, encryptionRequired: false, roleAttributes: [`web-${n}`] });
  policy = await c.make("service-policies", {
    name: `p${n}`,
    type: "Dial",
    semantic: "AllOf",
    identityRoles: ["#users"],
    serviceRoles: [`#web-${n}`],
  });
  token = await c.login(`user-${n}`, "password");
});

async function dial(): Promise<string> {
  const answer = await c.call("POST", "/edge/client/v1/sessions", { token, body: { serviceId: service } });
  if (answer.status !== 201) throw new Error(answer.text);
  return answer.json.data.token;
}

async function isRemoved(session: string): Promise<void> {
  while (!removed.has(session)) await once(changes, "removed");
}

describe("a session ends when", () => {
  it.each<[string, () => Promise<unknown>]>([
    ["its identity loses the attribute", () => c.admin("PATCH", `/identities/${identity}`, { roleAttributes: [] })],
    ["its service loses the attribute", () => c.admin("PATCH", `/services/${service}`, { roleAttributes: ["x"] })],
    ["its service is deleted", () => c.admin("DELETE", `/services/${service}`)],
    ["its identity is deleted", () => c.admin("DELETE", `/identities/${identity}`)],
    [
      "the policy selects others",
      () => c.admin("PATCH", `/service-policies/${policy}`, { identityRoles: ["#nobody"] }),
    ],
    ["the policy is of the other type", () => c.admin("PATCH", `/service-policies/${policy}`, { type: "Bind" })],
    ["the policy is deleted", () => c.admin("DELETE", `/service-policies/${policy}`)],
    ["the identity is disabled", () => c.admin("POST", `/identities/${identity}/disable`, { durationMinutes: 1 })],
    ["its owner logs out", () => c.call("DELETE", "/edge/client/v1/current-api-session", { token })],
  ])("%s", async (_, change) => {
    const session = await dial();
    await change();
    await isRemoved(session);
  });

  it("and not before the last policy that allows it is gone", async () => {
    const second = await c.make("service-policies", {
      name: `second-${n}`,
      type: "Dial",
      semantic: "AnyOf",
      identityRoles: [`@${identity}`],
      serviceRoles: [`@${service}`],
    });
    const session = await dial();
    await c.admin("DELETE", `/service-policies/${policy}`);
    await c.ctx.store.changes.caughtUp();
    expect(await c.model.sessions.endUnauthorized()).toBe(0);
    expect(await c.fabricModel.unknownSessions([session])).toEqual([]);
    await c.admin("DELETE", `/service-policies/${second}`);
    await isRemoved(session);
  });
});
