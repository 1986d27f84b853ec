import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "./testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

const identity = (name: string, more: object = {}) => ({ name, type: "User", isAdmin: false, ...more });

describe("edge routers", () => {
  it("come with an enrollment that is shown until they are verified", async () => {
    const id = await c.make("edge-routers", { name: "er-1", roleAttributes: ["public"], cost: null });
    const { data } = (await c.admin("GET", `/edge-routers/${id}`)).json;
    expect(data).toMatchObject({
      name: "er-1",
      cost: 0,
      isOnline: false,
      isVerified: false,
      isTunnelerEnabled: false,
      syncStatus: "SYNC_UNKNOWN",
      supportedProtocols: {},
      hostname: "",
      roleAttributes: ["public"],
      unverifiedCertPem: null,
      certPem: null,
    });
    const claims = JSON.parse(Buffer.from(data.enrollmentJwt.split(".")[1], "base64url").toString());
    expect(claims).toMatchObject({ em: "erott", sub: id, jti: data.enrollmentToken });
    expect(typeof data.enrollmentExpiresAt).toBe("string");
  });

  it("with a tunneler have an identity of their own and a system policy, renamed and removed with them", async () => {
    const id = await c.make("edge-routers", { name: "tun-1", isTunnelerEnabled: true });
    const own = (await c.admin("GET", `/identities/${id}`)).json.data;
    expect(own).toMatchObject({ name: "tun-1", typeId: "Router" });
    const policy = (await c.admin("GET", `/edge-router-policies/${id}`)).json.data;
    expect(policy).toMatchObject({
      name: `edge-router-${id}-system`,
      isSystem: true,
      semantic: "AnyOf",
      identityRoles: [`@${id}`],
      edgeRouterRoles: [`@${id}`],
      identityRolesDisplay: [{ role: `@${id}`, name: "@tun-1" }],
    });
    const refused = await c.admin("DELETE", `/edge-router-policies/${id}`);
    expect([refused.status, refused.json.error.code]).toEqual([400, "ENTITY_CAN_NOT_BE_DELETED"]);
    const kept = await c.admin("DELETE", `/identities/${id}`);
    expect([kept.status, kept.json.error.code]).toEqual([400, "ENTITY_CAN_NOT_BE_DELETED"]);
    await c.admin("PATCH", `/edge-routers/${id}`, { name: "tun-2" });
    await c.admin("PUT", `/identities/${id}`, { name: "tun-2", type: "Device", isAdmin: false });
    expect((await c.admin("GET", `/identities/${id}`)).json.data).toMatchObject({ name: "tun-2", typeId: "Router" });
    const turnedOff = await c.admin("PATCH", `/edge-routers/${id}`, { isTunnelerEnabled: false });
    expect(turnedOff.status).toBe(200);
    expect((await c.admin("GET", `/identities/${id}`)).status).toBe(404);
    expect((await c.admin("GET", `/edge-router-policies/${id}`)).status).toBe(404);
  });

  it("show what a router said last about itself, and that it is online while it is", async () => {
    const id = await c.make("edge-routers", { name: "reporting" });
    const version = { version: "v1.6.20", revision: "r", buildDate: "d", os: "linux", arch: "arm64" };
    await c.fabricModel.saveRouterReport({
      ...{ routerId: id, hostname: "h.example", version },
      ctrlChanListeners: { "tls:r.example:6000": ["default"] },
    });
    await c.fabricModel.saveRouterInterfaces(id, [
      { name: "lo", hardwareAddress: "", mtu: 65536, index: 1, flags: 37, addresses: ["127.0.0.1/8"] },
    ]);
    const offline = (await c.admin("GET", `/edge-routers/${id}`)).json.data;
    expect(offline).toMatchObject({ isOnline: false, hostname: "h.example", versionInfo: version });
    expect(offline.ctrlChanListeners).toEqual({ "tls:r.example:6000": ["default"] });
    expect(offline.interfaces).toMatchObject([{ name: "lo", isUp: true, isLoopback: true, isBroadcast: false }]);
    const protocols = { tls: "tls://h.example:3022" };
    c.online.set(id, { isOnline: true, hostname: "h.example", supportedProtocols: protocols, syncStatus: "SYNC_DONE" });
    const online = (await c.admin("GET", "/edge-routers?filter=connected")).json.data;
    expect(online).toMatchObject([{ id, isOnline: true, supportedProtocols: protocols, syncStatus: "SYNC_DONE" }]);
    c.online.delete(id);
  });

  it("are re-enrolled with a new token", async () => {
    const id = await c.make("edge-routers", { name: "again" });
    const before = (await c.admin("GET", `/edge-routers/${id}`)).json.data.enrollmentToken;
    expect((await c.admin("POST", `/edge-routers/${id}/re-enroll`)).status).toBe(200);
    const after = (await c.admin("GET", `/edge-routers/${id}`)).json.data.enrollmentToken;
    expect(after).not.toBe(before);
  });
});

describe("services and configs", () => {
  it("configs are checked against their type's schema and shown in services by type name", async () => {
    const types = (await c.admin("GET", "/config-types?filter=limit%20none")).json.data;
    expect(types.map((type: { name: string }) => type.name).sort()).toEqual([
      "host-interfaces.v1",
      "host.v1",
      "host.v2",
      "intercept.v1",
      "interfaces.v1",
      "l2.host.v1",
      "l2.intercept.v1",
      "proxy.v1",
      "router.link.v1",
      "ziti-tunneler-client.v1",
      "ziti-tunneler-server.v1",
    ]);
    const bad = await c.admin("POST", "/configs", {
      name: "bad",
      configTypeId: "g7cIWbcGg",
      data: { protocols: ["icmp"], addresses: ["a.b"], portRanges: [{ low: 1, high: 2 }] },
    });
    expect([bad.status, bad.json.error.code, bad.json.error.cause.field]).toEqual([
      400,
      "COULD_NOT_VALIDATE",
      "protocols.0",
    ]);
    const data = { protocol: "tcp", address: "localhost", port: 80 };
    const config = await c.make("configs", { name: "host", configTypeId: "NH5p4FpGR", data });
    const service = await c.make("services", {
      name: "web",
      encryptionRequired: true,
      configs: [config],
      roleAttributes: ["w"],
      maxIdleTimeMillis: 1000,
    });
    const listed = await c.admin("GET", `/services?configTypes=host.v1&filter=${encodeURIComponent('name="web"')}`);
    expect(listed.json.data[0]).toMatchObject({
      config: { "host.v1": data },
      configs: [config],
      encryptionRequired: true,
      maxIdleTimeMillis: 1000,
      terminatorStrategy: "smartrouting",
      permissions: ["Invalid"],
      postureQueries: [],
    });
    const second = await c.make("configs", { name: "host-2", configTypeId: "NH5p4FpGR", data });
    const two = await c.admin("PATCH", `/services/${service}`, { configs: [config, second] });
    expect([two.status, two.json.error.cause.field]).toEqual([400, "configs"]);
    await c.admin("PUT", `/services/${service}`, { name: "web", configs: [config], encryptionRequired: false });
    expect((await c.admin("GET", `/services/${service}`)).json.data.encryptionRequired).toBe(true);
    const used = await c.admin("DELETE", "/config-types/NH5p4FpGR");
    expect([used.status, used.json.error.code]).toEqual([409, "CAN_NOT_DELETE_REFERENCED_ENTITY"]);
    const noStrategy = await c.admin("PATCH", `/services/${service}`, { terminatorStrategy: "best" });
    expect([noStrategy.status, noStrategy.json.error.cause.message]).toEqual([
      404,
      "terminatorStrategy with name best not found",
    ]);
  });

  it("host.v1 takes each thing fixed, forwarded, or both, as consoles write it", async () => {
    const forwarded = {
      forwardProtocol: true,
      allowedProtocols: ["tcp", "udp"],
      forwardAddress: true,
      allowedAddresses: ["*.x"],
      forwardAddressTranslations: [{ from: "10.0.0.0", to: "192.168.0.0", prefixLength: 16 }],
      forwardPort: true,
      allowedPortRanges: [{ low: 1, high: 9 }],
      listenOptions: { bindUsingEdgeIdentity: true, connectTimeout: "1.5s" },
    };
    const refused = async (type: string, data: object): Promise<string> => {
      const { status, json } = await c.admin("POST", "/configs", { name: "refused", configTypeId: type, data });
      expect(status).toBe(400);
      return json.error.cause.field;
    };
    for (const type of ["NH5p4FpGR", "host.v2"]) {
      const wrap = (data: object) => (type === "host.v2" ? { terminators: [data] } : data);
      const at = type === "host.v2" ? "terminators.0." : "";
      const name = (what: string) => `${what} of ${type}`;
      await c.make("configs", { name: name("forwarded"), configTypeId: type, data: wrap(forwarded) });
      const both = { ...forwarded, protocol: "tcp", address: "a.b", port: 5 };
      await c.make("configs", { name: name("both"), configTypeId: type, data: wrap(both) });
      const { allowedPortRanges: _, ...unlisted } = forwarded;
      expect(await refused(type, wrap(unlisted))).toBe(`${at}allowedPortRanges`);
      expect(await refused(type, wrap({ ...unlisted, forwardPort: undefined }))).toBe(`${at}port`);
      expect(await refused(type, wrap({ ...both, allowedProtocols: [] }))).toBe(`${at}allowedProtocols`);
      const translations = [{ from: "10.0.0.0", to: "fd00::", prefixLength: 16 }];
      expect(await refused(type, wrap({ ...both, forwardAddressTranslations: translations }))).toMatch(
        `${at}forwardAddressTranslations.0`,
      );
    }
  });

  it("an empty schema of a config type is none", async () => {
    const id = await c.make("config-types", { name: "free", schema: {} });
    const schema = async () => (await c.admin("GET", `/config-types/${id}`)).json.data.schema;
    expect(await schema()).toBe(null);
    const config = await c.make("configs", { name: "anything", configTypeId: id, data: { a: [1] } });
    const object = { type: "object" };
    expect((await c.admin("PATCH", `/config-types/${id}`, { schema: object })).status).toBe(200);
    expect(await schema()).toEqual(object);
    expect((await c.admin("PATCH", `/config-types/${id}`, { schema: {} })).status).toBe(200);
    expect(await schema()).toBe(null);
    expect((await c.admin("POST", "/config-types", { name: "list", schema: { type: "array" } })).status).toBe(400);
    await c.admin("DELETE", `/configs/${config}`);
    await c.admin("DELETE", `/config-types/${id}`);
  });

  it("the fixed types say of a list what consoles read", async () => {
    const { schema } = (await c.admin("GET", "/config-types/g7cIWbcGg")).json.data;
    expect(schema.properties.addresses).toEqual({
      allOf: [{ $ref: "#/definitions/inhabitedSet" }, { items: { $ref: "#/definitions/listenAddress" } }],
    });
    expect(schema.definitions.inhabitedSet).toEqual({ type: "array", minItems: 1, uniqueItems: true });
  });

  it("terminators refer to a known service and router", async () => {
    const service = await c.make("services", { name: "term-svc", encryptionRequired: false });
    const router = await c.make("edge-routers", { name: "term-er" });
    const body = {
      service,
      router,
      address: "tcp:localhost:80",
      binding: "transport",
      cost: 5,
      precedence: "required",
    };
    const id = await c.make("terminators", body);
    const { data } = (await c.admin("GET", `/terminators/${id}`)).json;
    expect(data).toMatchObject({
      address: "tcp:localhost:80",
      cost: 5,
      dynamicCost: 0,
      identity: "",
      precedence: "required",
      router: { entity: "transit-routers", name: "term-er" },
      service: { entity: "services", name: "term-svc" },
    });
    await c.admin("PATCH", `/terminators/${id}`, { cost: 9 });
    expect((await c.admin("GET", `/services/${service}/terminators`)).json.data[0].cost).toBe(9);
    await c.make("services", { name: "term-none", encryptionRequired: false });
    const unhosted = `/services?filter=${encodeURIComponent('name contains "term-" and isEmpty(terminators)')}`;
    expect((await c.admin("GET", unhosted)).json.data).toMatchObject([{ name: "term-none" }]);
    const filtered = await c.admin("GET", `/terminators?filter=${encodeURIComponent('service.name = "term-svc"')}`);
    expect(filtered.json.meta.pagination.totalCount).toBe(1);
    const unknown = await c.admin("POST", "/terminators", { ...body, service: "nope" });
    expect([unknown.status, unknown.json.error.cause.message]).toEqual([404, "service with id nope not found"]);
    await c.admin("DELETE", `/services/${service}`);
    expect((await c.admin("GET", `/terminators/${id}`)).status).toBe(404);
  });
});

describe("policies", () => {
  it("select by attribute, by id and by name, and are shown with names", async () => {
    const i = await c.make("identities", identity("pol-i", { roleAttributes: ["pol"] }));
    const s = await c.make("services", { name: "pol-s", encryptionRequired: false });
    const id = await c.make("service-policies", {
      name: "pol-1",
      type: "Dial",
      semantic: "AnyOf",
      identityRoles: ["#pol", "@pol-i"],
      serviceRoles: ["@pol-s"],
    });
    const { data } = (await c.admin("GET", `/service-policies/${id}`)).json;
    expect(data).toMatchObject({
      type: "Dial",
      semantic: "AnyOf",
      identityRoles: ["#pol", `@${i}`],
      serviceRoles: [`@${s}`],
      postureCheckRoles: null,
      serviceRolesDisplay: [{ role: `@${s}`, name: "@pol-s" }],
    });
    const services = await c.admin("GET", `/identities/${i}/services`);
    expect(services.json.data).toMatchObject([{ id: s, permissions: ["Dial"] }]);
    expect((await c.admin("GET", `/services/${s}/identities?policyType=dial`)).json.data).toMatchObject([{ id: i }]);
    expect((await c.admin("GET", `/services/${s}/identities?policyType=bind`)).json.data).toEqual([]);
    expect((await c.admin("GET", `/service-policies/${id}/services`)).json.data).toMatchObject([{ id: s }]);
    expect((await c.admin("GET", `/identities/${i}/service-policies`)).json.data).toMatchObject([{ id }]);
    const byType = async (filter: string) => {
      const { json } = await c.admin("GET", `/service-policies?limit=-1&filter=${encodeURIComponent(filter)}`);
      return json.data.map((policy: { type: string }) => policy.type);
    };
    expect(await byType("type = 1")).toContain("Dial");
    expect(await byType('type = "Dial"')).toEqual(await byType("type = 1"));
    expect(new Set(await byType('type != "Dial"'))).not.toContain("Dial");
    await c.admin("DELETE", `/services/${s}`);
    expect((await c.admin("GET", `/service-policies/${id}`)).json.data.serviceRoles).toBe(null);
  });

  it("refuse #all among others, unknown ids and entries without prefix", async () => {
    const cases: [string[], string][] = [
      [["#all", "#x"], "if using #all, it should be the only role specified"],
      [["@unknown"], "no identities found with the given ids"],
      [["plain"], "role entries must prefixed with # (to indicate role attributes) or @ (to indicate a name or id)"],
    ];
    for (const [identityRoles, reason] of cases) {
      const answer = await c.admin("POST", "/edge-router-policies", { name: "bad", semantic: "AnyOf", identityRoles });
      expect(answer.status).toBe(400);
      expect(answer.json.error.cause).toMatchObject({ field: "identityRoles", reason });
    }
    const semantic = await c.admin("POST", "/edge-router-policies", { name: "bad", semantic: "Some" });
    expect(semantic.status).toBe(400);
  });

  it("policy advice counts routers and says what is allowed", async () => {
    const i = await c.make("identities", identity("adv-i", { roleAttributes: ["adv"] }));
    const s = await c.make("services", { name: "adv-s", encryptionRequired: false, roleAttributes: ["adv"] });
    const r = await c.make("edge-routers", { name: "adv-r", roleAttributes: ["adv"] });
    await c.make("service-policies", {
      name: "adv-bind",
      type: "Bind",
      semantic: "AllOf",
      identityRoles: ["#adv"],
      serviceRoles: ["#adv"],
    });
    await c.make("edge-router-policies", {
      name: "adv-erp",
      semantic: "AnyOf",
      identityRoles: ["#adv"],
      edgeRouterRoles: [`@${r}`],
    });
    await c.make("service-edge-router-policies", {
      name: "adv-serp",
      semantic: "AnyOf",
      serviceRoles: ["#all"],
      edgeRouterRoles: ["#adv"],
    });
    const { data } = (await c.admin("GET", `/identities/${i}/policy-advice/${s}`)).json;
    expect(data).toMatchObject({
      isBindAllowed: true,
      isDialAllowed: false,
      identityRouterCount: 1,
      serviceRouterCount: 1,
      commonRouters: [{ id: r, name: "adv-r", isOnline: false }],
    });
    expect((await c.admin("GET", `/edge-routers/${r}/identities`)).json.data).toMatchObject([{ id: i }]);
    expect((await c.admin("GET", `/edge-routers/${r}/services`)).json.meta.pagination.totalCount).toBeGreaterThan(0);
    expect((await c.admin("GET", `/identities/${i}/policy-advice/nope`)).status).toBe(404);
  });
});

it("the summary counts every collection", async () => {
  const { data } = (await c.admin("GET", "/summary")).json;
  expect(data.configTypes).toBe(11);
  expect(data.identities).toBeGreaterThan(1);
  expect(data["routers.edge"]).toBeGreaterThan(0);
});

it("lists of everything that is only read answer", async () => {
  for (const path of [
    "/auth-policies",
    "/auth-policies/default",
    "/cas",
    "/external-jwt-signers",
    "/identity-types",
    "/identity-types/Router",
    "/api-sessions",
    "/sessions",
    "/enrollments",
    "/authenticators",
    "/terminators",
    "/edge-router-role-attributes",
    "/service-role-attributes",
    "/controllers",
    "/network-jwts",
    "/version",
    "/current-identity",
    "/current-api-session",
  ]) {
    const answer = await c.admin("GET", path);
    expect([path, answer.status, answer.status === 200 ? "" : answer.text]).toEqual([path, 200, ""]);
  }
});
