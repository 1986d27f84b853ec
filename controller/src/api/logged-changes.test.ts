/** A mirror of the store reads the change log: no row may come, change or go without it. */
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "./testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

/** The changes that the work has logged, as `kind op`, sorted and without duplicates. */
async function logged(work: () => Promise<unknown>): Promise<string[]> {
  const { rows: before } = await sql<{ seq: string }>`SELECT coalesce(max(seq), 0) AS seq FROM change_log`.execute(
    c.ctx.store.db,
  );
  await work();
  const { rows } = await sql<{ change: string }>`
    SELECT DISTINCT kind || ' ' || op AS change FROM change_log WHERE seq > ${before[0]!.seq} ORDER BY 1`.execute(
    c.ctx.store.db,
  );
  return rows.map((row) => row.change);
}

const person = (name: string, more: object = {}) => ({ name, type: "User", isAdmin: false, ...more });
const ok = async (method: string, path: string, body?: unknown) => {
  const answer = await c.admin(method, path, body);
  expect(answer.status, answer.text).toBeLessThan(300);
};

describe("the change log", () => {
  it("tells of an identity and of everything that comes and goes with it", async () => {
    let id = "";
    expect(
      await logged(async () => {
        id = await c.make("identities", person("ann", { enrollment: { ott: true } }));
      }),
    ).toEqual(["enrollment create", "identity create"]);
    await c.make("authenticators", { identityId: id, method: "updb", username: "ann-a", password: "password" });
    const token = await c.login("ann-a", "password");
    expect(await logged(() => c.call("POST", "/edge/client/v1/current-identity/mfa", { token }))).toEqual([
      "mfa create",
    ]);
    await c.make("service-policies", {
      ...{ name: "of ann", type: "Dial", semantic: "AnyOf" },
      identityRoles: [`@${id}`],
    });
    expect(await logged(() => ok("DELETE", `/identities/${id}`))).toEqual([
      "api_session delete",
      "authenticator delete",
      "enrollment delete",
      "identity delete",
      "mfa delete",
      "service_policy update",
    ]);
  });

  it("tells of an MFA enrollment that an administrator removes, once", async () => {
    const id = await c.make("identities", person("bea"));
    await c.make("authenticators", { identityId: id, method: "updb", username: "bea-b", password: "password" });
    const token = await c.login("bea-b", "password");
    await c.call("POST", "/edge/client/v1/current-identity/mfa", { token });
    expect(await logged(() => ok("DELETE", `/identities/${id}/mfa`))).toEqual(
      expect.arrayContaining(["identity update", "mfa delete"]),
    );
    expect(await logged(() => ok("DELETE", `/identities/${id}/mfa`))).not.toContain("mfa delete");
  });

  it("tells of a router with a tunneler and of what goes with it", async () => {
    let id = "";
    expect(
      await logged(async () => {
        id = await c.make("edge-routers", { name: "r1", isTunnelerEnabled: true });
      }),
    ).toEqual(["edge_router_policy create", "enrollment create", "identity create", "router create"]);
    expect(await logged(() => ok("PATCH", `/edge-routers/${id}`, { name: "r2" }))).toEqual([
      "identity update",
      "router update",
    ]);
    expect(await logged(() => ok("DELETE", `/edge-routers/${id}`))).toEqual(
      expect.arrayContaining(["edge_router_policy delete", "enrollment delete", "identity delete", "router delete"]),
    );
  });

  it("tells of a service with its terminators, and of services whose config changes", async () => {
    const router = await c.make("edge-routers", { name: "r3" });
    const type = await c.make("config-types", { name: "shape", schema: { type: "object" } });
    const config = await c.make("configs", { name: "made", configTypeId: type, data: {} });
    const service = await c.make("services", { name: "s", encryptionRequired: false, configs: [config] });
    await c.make("terminators", { service, router, binding: "transport", address: "tcp:localhost:1" });
    expect(await logged(() => ok("PATCH", `/configs/${config}`, { data: { a: 1 } }))).toEqual([
      "config update",
      "service update",
    ]);
    expect(await logged(() => ok("DELETE", `/services/${service}`))).toEqual(["service delete", "terminator delete"]);
  });
});

describe("what refers to something that ended meanwhile", () => {
  it("is refused, and is no fault of the controller", async () => {
    const service = await c.make("services", { name: "dialed", encryptionRequired: false });
    const router = await c.make("edge-routers", { name: "r4" });
    const all = { semantic: "AnyOf", identityRoles: ["#all"], serviceRoles: ["#all"], edgeRouterRoles: ["#all"] };
    await c.make("service-policies", { ...all, name: "dial", type: "Dial" });
    await c.make("edge-router-policies", { ...all, name: "routers", edgeRouterRoles: [`@${router}`] });
    await c.make("service-edge-router-policies", { ...all, name: "services" });
    const id = await c.make("identities", person("cid"));
    const identity = await c.model.identities.get(c.ctx.store.db, id);
    await expect(
      c.model.sessions.create({ id: "ended" }, identity, { serviceId: service, type: "Dial" }),
    ).rejects.toMatchObject({ status: 404, code: "NOT_FOUND" });
    await expect(c.model.mfa.start("nobody")).rejects.toMatchObject({ status: 404, code: "NOT_FOUND" });
  });
});
