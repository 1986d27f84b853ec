import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { settled } from "../../store/testing/test-store.ts";
import { type CallOptions, startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

const ONLINE = {
  isOnline: true,
  hostname: "er.example",
  supportedProtocols: { tls: "tls://er.example:3022" },
  syncStatus: "SYNC_DONE",
} as const;

const client = (method: string, path: string, options?: CallOptions) =>
  c.call(method, `/edge/client/v1${path}`, options);

/** An identity that has logged in with its password, and wants all configs. */
async function user(name: string, roleAttributes: readonly string[]): Promise<{ id: string; token: string }> {
  const id = await c.make("identities", { name, type: "User", isAdmin: false, roleAttributes });
  await c.make("authenticators", { identityId: id, method: "updb", username: `user-${name}`, password: "password" });
  const body = { username: `user-${name}`, password: "password", configTypes: ["all"] };
  const { json } = await client("POST", "/authenticate?method=password", { body });
  return { id, token: json.data.token };
}

describe("services and sessions of a client", () => {
  it("shows granted services only, makes one session per service and type, and takes it away with the policy", async () => {
    const eve = await user("eve", ["svc-users"]);
    const { token } = eve;
    const router = await c.make("edge-routers", { name: "svc-er" });
    const config = await c.make("configs", {
      name: "svc-config",
      configTypeId: "NH5p4FpGR",
      data: { protocol: "tcp", address: "a", port: 1 },
    });
    const service = await c.make("services", { name: "svc", encryptionRequired: true, configs: [config] });
    const hidden = await c.make("services", { name: "hidden", encryptionRequired: true });
    await settled(c.ctx.store);
    const before = (await client("GET", "/current-api-session/service-updates", { token })).json.data.lastChangeAt;
    const policy = await c.make("service-policies", {
      name: "svc-dial",
      type: "Dial",
      semantic: "AnyOf",
      identityRoles: ["#svc-users"],
      serviceRoles: [`@${service}`],
    });
    await settled(c.ctx.store);
    const after = (await client("GET", "/current-api-session/service-updates", { token })).json.data.lastChangeAt;
    expect(after).not.toBe(before);
    const services = await client("GET", "/services?limit=500", { token });
    expect(services.json.meta.pagination.totalCount).toBe(1);
    expect(services.json.data).toMatchObject([
      {
        id: service,
        permissions: ["Dial"],
        config: { "host.v1": { address: "a" } },
        postureQueries: [{ isPassing: true, policyType: "Dial", postureQueries: [] }],
      },
    ]);
    expect((await client("GET", `/services/${hidden}`, { token })).status).toBe(404);

    const noRouter = await client("POST", "/sessions", { token, body: { serviceId: service, type: "Dial" } });
    expect([noRouter.status, noRouter.json.error.code]).toEqual([400, "NO_EDGE_ROUTERS_AVAILABLE"]);
    await c.make("edge-router-policies", {
      name: "svc-erp",
      semantic: "AnyOf",
      identityRoles: ["#svc-users"],
      edgeRouterRoles: [`@${router}`],
    });
    await c.make("service-edge-router-policies", {
      name: "svc-serp",
      semantic: "AnyOf",
      serviceRoles: ["#all"],
      edgeRouterRoles: ["#all"],
    });
    const offline = await client("POST", "/sessions", { token, body: { serviceId: service } });
    const away = { name: "svc-er", isOnline: false, supportedProtocols: {}, hostname: "", syncStatus: "SYNC_UNKNOWN" };
    expect([offline.status, offline.json.data.edgeRouters]).toMatchObject([201, [{ ...away, urls: {} }]]);
    const whileAway = await client("GET", `/services/${service}/edge-routers`, { token });
    expect(whileAway.json.data.edgeRouters).toMatchObject([away]);
    const ownRouters = async () => (await client("GET", "/current-identity/edge-routers", { token })).json.data;
    // One that was never enrolled is none that a client could use soon.
    expect(await ownRouters()).toEqual([]);
    await c.ctx.store.db.updateTable("router").set({ is_verified: true }).where("id", "=", router).execute();
    expect(await ownRouters()).toMatchObject([{ id: router, ...away }]);
    c.online.set(router, ONLINE);
    const again = await client("POST", "/sessions", { token, body: { serviceId: service, type: "Dial", tags: null } });
    expect(again.status).toBe(201);
    expect(again.json.data).toMatchObject({
      id: offline.json.data.id,
      token: offline.json.data.token,
      type: "Dial",
      serviceId: service,
      service: { name: "svc" },
      edgeRouters: [
        {
          name: "svc-er",
          supportedProtocols: { tls: "tls://er.example:3022" },
          urls: { tls: "tls://er.example:3022" },
          isOnline: true,
        },
      ],
    });
    expect(await ownRouters()).toMatchObject([{ id: router, name: "svc-er", isOnline: true }]);
    const ofService = await client("GET", `/services/${service}/edge-routers`, { token });
    expect(ofService.json.data.edgeRouters).toMatchObject([{ name: "svc-er" }]);
    const bind = await client("POST", "/sessions", { token, body: { serviceId: service, type: "Bind" } });
    expect([bind.status, bind.json.error.cause]).toEqual([
      400,
      { field: "ServiceId", reason: "service not found", value: service },
    ]);
    expect((await client("POST", "/sessions", { token, body: { serviceId: hidden } })).status).toBe(404);
    const managed = (await c.admin("GET", `/sessions/${offline.json.data.id}`)).json.data;
    expect(managed.servicePolicies).toMatchObject([{ id: policy, name: "svc-dial" }]);

    const claim = {
      sessionToken: again.json.data.token,
      apiSessionToken: token,
      routerId: router,
      checksPosture: false,
    };
    expect(await c.fabricModel.authorizeDial(claim)).toMatchObject({ identityId: eve.id, service: { id: service } });
    expect(await c.fabricModel.authorizeBind(claim)).toEqual({ denied: 4 });
    expect(await c.fabricModel.authorizeDial({ ...claim, sessionToken: "x" })).toEqual({ denied: 3 });
    expect(await c.fabricModel.authorizeDial({ ...claim, apiSessionToken: "x" })).toEqual({ denied: 2 });
    expect(await c.fabricModel.authorizeDial({ ...claim, routerId: "x" })).toEqual({ denied: 5 });

    const removed = new Promise<string>((resolve) => {
      c.fabricModel.onChange((change) => {
        if (change.kind === "session-removed") resolve(change.token);
      });
    });
    await c.admin("DELETE", `/service-policies/${policy}`);
    expect(await removed).toBe(again.json.data.token);
    expect((await client("GET", `/sessions/${offline.json.data.id}`, { token })).status).toBe(404);
  });
});

describe("routers of a client", () => {
  it("are those that policy allows, online or not: at most 25 with a session, those that are online first", async () => {
    const { token } = await user("rita", ["router-users"]);
    const other = await user("ruth", ["router-users"]);
    const service = await c.make("services", { name: "routed", encryptionRequired: true, roleAttributes: ["routed"] });
    const roles = { semantic: "AnyOf", identityRoles: ["#router-users"] };
    await c.make("service-policies", { name: "routed", type: "Dial", ...roles, serviceRoles: ["#routed"] });
    const edgeRouterRoles = ["#routed-ers"];
    await c.make("edge-router-policies", { name: "routed", ...roles, edgeRouterRoles });
    const carrying = { semantic: "AnyOf", serviceRoles: ["#routed"], edgeRouterRoles };
    await c.make("service-edge-router-policies", { name: "routed", ...carrying });
    const ids: string[] = [];
    for (let i = 0; i < 30; i++)
      ids.push(await c.make("edge-routers", { name: `er-${i}`, roleAttributes: ["routed-ers"] }));
    await c.ctx.store.db.updateTable("router").set({ is_verified: true }).where("id", "in", ids).execute();
    const last = ids.toSorted().at(-1) ?? "";
    const name = `er-${ids.indexOf(last)}`;
    c.online.set(last, ONLINE);
    const session = await client("POST", "/sessions", { token, body: { serviceId: service } });
    const { edgeRouters } = session.json.data;
    expect(edgeRouters.length).toBe(25);
    expect(edgeRouters[0]).toMatchObject({ name, isOnline: true });
    const ofService = async (query: string, headers: Record<string, string> = {}) =>
      await client("GET", `/services/${service}/edge-routers${query}`, { token, headers });
    const unasked = (await ofService("")).json;
    expect(unasked.data.edgeRouters.length).toBe(25);
    expect(unasked.data.edgeRouters[0]).toMatchObject({ name, isOnline: true });
    expect(unasked.meta.pagination).toEqual({ limit: 25, offset: 0, totalCount: 30 });
    const second = (await ofService("?limit=2&offset=1&sort=name%20desc")).json;
    expect(second.data.edgeRouters.map((router: { name: string }) => router.name)).toEqual(["er-8", "er-7"]);
    const filtered = (await ofService(`?limit=100&filter=${encodeURIComponent('name contains "er-1"')}`)).json;
    expect(filtered.data.edgeRouters.length).toBe(11);
    expect(filtered.meta.pagination.totalCount).toBe(11);
    // A service session of the caller's; another's, or none, is refused.
    expect((await ofService("", { "session-token": session.json.data.token })).status).toBe(200);
    const outsider = (await client("POST", "/sessions", { token: other.token, body: { serviceId: service } })).json
      .data;
    for (const wrong of [outsider.token, "x", token]) {
      expect((await ofService("", { "session-token": wrong })).status).toBe(401);
    }
    // A signed one names session and API session; its text may be older than the stored one.
    const { id, apiSessionId, identityId } = session.json.data;
    const signed = (change: object) =>
      c.ctx.tokens.issuer.service(
        { ...{ id, apiSessionId, identityId, serviceId: service, type: "Dial" as const }, ...change },
        { isLegacy: true },
      ).token;
    expect((await ofService("", { "session-token": signed({}) })).status).toBe(200);
    const { id: otherId, apiSessionId: otherApiSession } = outsider;
    const forged = `${signed({}).slice(0, -4)}AAAA`;
    for (const wrong of [
      signed({ id: otherId }),
      signed({ apiSessionId: otherApiSession }),
      signed({ id: "x" }),
      forged,
    ]) {
      expect((await ofService("", { "session-token": wrong })).status).toBe(401);
    }
    expect(edgeRouters.slice(1).every((router: { isOnline: boolean }) => !router.isOnline)).toBe(true);
    const own = (await client("GET", "/current-identity/edge-routers?limit=500", { token })).json;
    expect(own.meta.pagination.totalCount).toBe(30);
    const all = (
      await client("GET", "/current-identity/edge-routers?limit=1", { token: await c.login("admin", "admin") })
    ).json;
    expect(all.meta.pagination.totalCount).toBeGreaterThan(30);
  });
});

describe("what others than administrators may store", () => {
  it("has a bound: tags of sessions and of one's own authenticators, ids, and config types that are asked for", async () => {
    const name = "bounded";
    const identityId = await c.make("identities", { name, type: "User", isAdmin: false });
    const id = await c.make("authenticators", { identityId, method: "updb", username: name, password: "secret" });
    const token = await c.login(name, "secret");
    const refused = async (method: string, path: string, body: object) => {
      const { status, json } = await client(method, path, { token, body });
      return [status, json.error.code, json.error.cause?.field];
    };
    const tags = (characters: number) => ({ note: "x".repeat(characters - '{"note":""}'.length) });
    const fields = { username: name, password: "secret", currentPassword: "secret" };
    const own = `/current-identity/authenticators/${id}`;
    const session = { serviceId: "none", type: "Dial" };
    const tooLarge = [400, "COULD_NOT_VALIDATE", "tags"];
    expect(await refused("POST", "/sessions", { ...session, tags: tags(4_097) })).toEqual(tooLarge);
    expect(await refused("PUT", own, { ...fields, tags: tags(4_097) })).toEqual(tooLarge);
    expect(await refused("PATCH", own, { ...fields, tags: tags(4_097) })).toEqual(tooLarge);
    expect((await client("PATCH", own, { token, body: { ...fields, tags: tags(4_096) } })).status).toBe(200);
    expect((await refused("POST", "/sessions", { ...session, serviceId: "x".repeat(256) }))[2]).toBe("serviceId");
    const login = { username: name, password: "secret", configTypes: Array.from({ length: 1_001 }, () => "x") };
    const answer = await client("POST", "/authenticate?method=password", { body: login });
    expect(answer.json.error.cause.field).toBe("configTypes");
  });
});

describe("posture", () => {
  const response = { id: "any", typeId: "OS", type: "linux", version: "6.1", build: "" };

  it.each([
    ["/posture-response", response],
    ["/posture-response-bulk", [response]],
    ["/posture-response-bulk", []],
  ])("%s is answered 201 with the services that it affects", async (path, body) => {
    const token = await c.login("admin", "admin");
    const answer = await client("POST", path, { token, body });
    expect([answer.status, answer.json]).toEqual([201, { data: { services: [] }, meta: {} }]);
  });
});
