import { EventEmitter, once } from "node:events";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { startTestController, type TestController } from "../../api/testing/test-controller.ts";
import { appendChange } from "../../store/changes/change-log.ts";

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
    ["the policy selects others", () => c.admin("PATCH", `/service-policies/${policy}`, { identityRoles: ["#none"] })],
    ["the policy is of the other type", () => c.admin("PATCH", `/service-policies/${policy}`, { type: "Bind" })],
    ["the policy is deleted", () => c.admin("DELETE", `/service-policies/${policy}`)],
    ["the identity is disabled", () => c.admin("POST", `/identities/${identity}/disable`, { durationMinutes: 1 })],
    ["its owner logs out", () => c.call("DELETE", "/edge/client/v1/current-api-session", { token })],
  ])("%s", async (_, change) => {
    const session = await dial();
    await change();
    await isRemoved(session);
  });

  it("its policy is deleted in the moment in which it is made", async () => {
    await dial();
    let release: () => void = () => undefined;
    const gate = new Promise<void>((open) => {
      release = open;
    });
    const locked = Promise.withResolvers<void>();
    const deleted = c.ctx.store.transaction(async (trx) => {
      await sql`DELETE FROM service_policy WHERE id = ${policy}`.execute(trx);
      await appendChange(trx, { kind: "service_policy", key: policy, op: "delete" });
      locked.resolve();
      await gate;
    });
    await locked.promise;
    const other = await c.login(`user-${n}`, "password");
    const asked = c.call("POST", "/edge/client/v1/sessions", { token: other, body: { serviceId: service } });
    await vi.waitFor(async () => {
      const { rows } = await sql`SELECT 1 FROM pg_locks WHERE NOT granted
        AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`.execute(c.ctx.store.db);
      expect(rows).toHaveLength(1);
    }, 10_000);
    release();
    await deleted;
    expect((await asked).status).toBe(404);
    // The change does not say whom it concerned, so the first session is still there; it is not handed out any more.
    const again = await c.call("POST", "/edge/client/v1/sessions", { token, body: { serviceId: service } });
    expect(again.status).toBe(404);
    expect(await c.model.sessions.endUnauthorized()).toBe(1);
  });

  it("and its terminators with it, when its router does not see to that", async () => {
    const router = await c.make("edge-routers", { name: `r${n}`, isTunnelerEnabled: false });
    const host = { binding: "edge", hostId: identity, instanceId: "", cost: 0, precedence: "default" } as const;
    const terminator = { ...host, routerId: router, serviceId: service, peerData: new Map() };
    await c.admin("PATCH", `/service-policies/${policy}`, { type: "Bind" });
    await c.fabricModel.createTerminator({ ...terminator, id: `hosted-${n}`, address: "a" });
    const plain = await c.make("terminators", { service, router, binding: "transport", address: "tcp:b:1" });
    await c.admin("PATCH", `/service-policies/${policy}`, { identityRoles: ["#none"] });
    await vi.waitFor(async () => {
      const left = await c.fabricModel.terminatorsOfService(service);
      expect(left.map(({ id }) => id)).toEqual([plain]);
    }, 10_000);
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
