import { describe, it } from "vitest";
import { type Both, CLIENT, FABRIC, type Step } from "./ask.ts";

const get = (path: string): Step => ({ method: "GET", path });
const post = (path: string, body: NonNullable<Step["body"]>, more: Partial<Step> = {}): Step => ({
  ...{ method: "POST", path, body },
  ...more,
});
const patch = (path: string, body: NonNullable<Step["body"]>, more: Partial<Step> = {}): Step => ({
  ...{ method: "PATCH", path, body },
  ...more,
});
const put = (path: string, body: NonNullable<Step["body"]>): Step => ({ method: "PUT", path, body });
const remove = (path: string, more: Partial<Step> = {}): Step => ({ method: "DELETE", path, ...more });

const NUMBERED = {
  ...{ status: 400, code: "COULD_NOT_VALIDATE" },
  because: "the peer answers with the number of its validator's error, which is no HTTP status",
};
const IGNORED = { status: 200, because: "the peer ignores fields of transit routers that it accepts" };
const BAD_NAME = {
  status: 400,
  code: "COULD_NOT_VALIDATE",
  because: "the peer drops the error, answers 200 and changes nothing",
};

/** Updates with null, names that are taken, entities of the system, references; routers, the fabric API and posture checks. */
export function updateAnswers(both: () => Both): void {
  describe("entities", () => {
    it("services and configs: null, names, references", async () => {
      const config = {
        name: "u-config",
        configTypeId: "host.v2",
        data: { terminators: [{ protocol: "tcp", address: "localhost", port: 80 }] },
      };
      const host = { protocol: "tcp", address: "localhost", port: 80 };
      await both().expectSame(
        post(
          "/services",
          { name: "u-1", encryptionRequired: true, roleAttributes: ["a"], tags: { k: "v" } },
          { keep: { one: "id" } },
        ),
        post("/services", { name: "u-2", encryptionRequired: true }, { keep: { two: "id" } }),
        get("/services/{one}"),
        patch("/services/{one}", { roleAttributes: null, tags: null }),
        get("/services/{one}"),
        patch("/services/{one}", { tags: { l: 1, m: true, n: null } }),
        get("/services/{one}"),
        patch("/services/{one}", { tags: {} }),
        get("/services/{one}"),
        patch("/services/{one}", { name: "u-2" }, { ours: BAD_NAME }),
        patch("/services/{one}", { name: "" }, { ours: BAD_NAME }),
        patch("/services/{one}", { encryptionRequired: "no" }),
        patch("/services/{one}", { bogus: 1 }),
        {
          ...patch("/services/{one}", { tags: { bad: { a: 1 } } }),
          ours: { status: 400, code: "COULD_NOT_PARSE_BODY", because: "the peer answers 500" },
        },
        patch("/services/{one}", {}),
        patch("/services/{one}", { roleAttributes: ["#x"] }),
        patch("/services/{one}", { configs: ["nowhere"] }),
        patch("/services/{one}", { terminatorStrategy: "bogus" }),
        put("/services/{one}", { name: "u-1", encryptionRequired: true }),
        get("/services/{one}"),
        put("/services/nowhere", { name: "u-1", encryptionRequired: true }),
        post("/configs", config, { keep: { config: "id" } }),
        post(
          "/configs",
          { ...config, name: "u-host", configTypeId: "NH5p4FpGR", data: host },
          { keep: { host: "id" } },
        ),
        post(
          "/configs",
          { ...config, name: "bad", configTypeId: "NH5p4FpGR", data: { protocol: "tcp" } },
          {
            ours: {
              status: 400,
              code: "COULD_NOT_VALIDATE",
              because: "ours names the field that is missing, the peer `(root)`",
            },
          },
        ),
        {
          ...post("/configs", { ...config, name: "bad", data: [] }),
          ours: { status: 400, code: "COULD_NOT_PARSE_BODY", because: "as for every other value of a wrong type" },
        },
        post("/configs", { name: "bad" }),
        patch("/configs/{host}", { data: { ...host, port: "x" } }),
        patch("/configs/{host}", { data: { ...host, port: 81 } }),
        get("/configs/{host}"),
        patch("/services/{one}", { configs: ["{host}"] }),
        get("/services/{one}"),
        get("/services/{one}/configs"),
        get("/configs/{host}/services"),
        remove("/configs/{host}"),
        get("/services/{one}/configs"),
        remove("/configs/{config}"),
        remove("/config-types/NH5p4FpGR/x"),
        get("/config-types/NH5p4FpGR"),
        put("/services/{one}", { name: "u-1", encryptionRequired: false }),
        {
          ...get("/services/{one}"),
          ours: { status: 200, because: "whether a service is encrypted does not change, not even by PUT" },
        },
        remove("/services/{one}"),
        remove("/services/{two}"),
        get("/services/{one}"),
      );
    });

    it("identities: null, names, system entities, types", async () => {
      const identity = { name: "u-id", type: "Device", isAdmin: false };
      await both().expectSame(
        post(
          "/identities",
          { ...identity, externalId: "e", roleAttributes: ["a"], appData: { a: 1 } },
          { keep: { id: "id" } },
        ),
        post("/identities", { ...identity, externalId: "f" }),
        post("/identities", { ...identity, name: "u-other", externalId: "e" }),
        post("/identities", { ...identity, name: "u-other", type: "Bogus" }),
        post(
          "/identities",
          { ...identity, name: "u-router", type: "Router" },
          { ours: { status: 400, code: "COULD_NOT_VALIDATE", because: "only an edge router makes such an identity" } },
        ),
        post("/identities", { ...identity, name: "u-other", isAdmin: "x" }),
        post("/identities", { name: "u-other" }),
        post("/identities", { ...identity, name: "u-ottca", enrollment: { ottca: "nowhere" } }),
        post("/identities", { ...identity, name: "u-bogus", enrollment: { bogus: true } }),
        post("/identities", { ...identity, name: "u-costs", serviceHostingCosts: { nowhere: 1 } }),
        post("/identities", { ...identity, name: "u-other", defaultHostingCost: 70_000 }),
        post("/identities", { ...identity, name: "u-other", defaultHostingPrecedence: "bogus" }),
        get("/identities/{id}"),
        patch("/identities/{id}", { externalId: null }),
        patch("/identities/{id}", { roleAttributes: null, appData: null, tags: null }),
        get("/identities/{id}"),
        patch("/identities/{id}", { isAdmin: null }),
        patch("/identities/{id}", { name: null }),
        get("/identities/{id}"),
        put("/identities/{id}", { ...identity, name: "u-put", isAdmin: true }),
        get("/identities/{id}"),
        put("/identities/{id}", { name: "u-put" }),
        get("/identities/{id}/edge-routers"),
        get("/identities/{id}/services"),
        get("/identities/{id}/service-configs"),
        get("/identities/{id}/posture-data"),
        get("/identities/{id}/failed-service-requests"),
        get("/identities/nowhere/services"),
        put("/identities/{id}/trace", { enabled: true, duration: "1m", channels: ["all"], traceId: "t" }),
        put("/identities/{id}/trace", { enabled: true, duration: "bogus", channels: ["all"], traceId: "t" }),
        remove("/identities/{id}"),
        get("/identity-types/nowhere"),
        get("/terminators"),
        get("/network-jwts"),
        get("/controllers"),
        get("/enumerated-capabilities"),
      );
    });

    it("policies: roles, names, what they refer to", async () => {
      const policy = {
        name: "u-policy",
        type: "Dial",
        semantic: "AnyOf",
        serviceRoles: ["#all"],
        identityRoles: ["#a"],
      };
      await both().expectSame(
        post(
          "/identities",
          { name: "u-member", type: "Device", isAdmin: false, roleAttributes: ["a"] },
          { keep: { member: "id" } },
        ),
        post("/services", { name: "u-used", encryptionRequired: true }, { keep: { used: "id" } }),
        post("/service-policies", { ...policy, identityRoles: ["@{member}", "#a"] }, { keep: { policy: "id" } }),
        get("/service-policies/{policy}"),
        get("/service-policies/{policy}/identities"),
        get("/service-policies/{policy}/services"),
        post("/service-policies", policy),
        post("/service-policies", { ...policy, name: "" }),
        post("/service-policies", { ...policy, name: "bad", type: "Both" }),
        post("/service-policies", { ...policy, name: "bad", identityRoles: ["@nowhere"] }),
        post("/service-policies", { ...policy, name: "bad", postureCheckRoles: ["@nowhere"] }),
        post("/service-policies", { ...policy, name: "bad", identityRoles: ["#"] }),
        post("/service-policies", { ...policy, name: "bad", identityRoles: "x" }),
        post("/service-policies", { name: "bad", type: "Dial" }),
        patch("/service-policies/{policy}", { serviceRoles: ["@{used}"], semantic: "AllOf" }),
        get("/service-policies/{policy}"),
        patch("/service-policies/{policy}", { identityRoles: null }),
        get("/service-policies/{policy}"),
        patch("/service-policies/{policy}", { type: "Bind" }),
        get("/service-policies/{policy}"),
        put("/service-policies/{policy}", { ...policy, type: "Bind" }),
        get("/service-policies/{policy}"),
        get("/identities/{member}/policy-advice/{used}"),
        get("/identities/{member}/policy-advice/nowhere"),
        get("/services/{used}/identities?policyType=bind"),
        { ...get("/services/{used}/identities?policyType=bogus"), ours: NUMBERED },
        remove("/services/{used}"),
        get("/service-policies/{policy}"),
        remove("/identities/{member}"),
        remove("/service-policies/{policy}"),
        remove("/service-policies/{policy}"),
        post(
          "/edge-router-policies",
          { name: "u-erp", semantic: "AllOf", edgeRouterRoles: ["#all"], identityRoles: ["#all"] },
          { keep: { erp: "id" } },
        ),
        post("/edge-router-policies", { name: "u-erp", semantic: "AllOf" }),
        post("/edge-router-policies", { name: "bad", semantic: "AllOf", edgeRouterRoles: ["@nowhere"] }),
        patch("/edge-router-policies/{erp}", { tags: { a: "b" } }),
        get("/edge-router-policies/{erp}"),
        remove("/edge-router-policies/{erp}"),
        post(
          "/service-edge-router-policies",
          { name: "u-serp", semantic: "AnyOf", edgeRouterRoles: [], serviceRoles: ["#x"] },
          { keep: { serp: "id" } },
        ),
        get("/service-edge-router-policies/{serp}"),
        put("/service-edge-router-policies/{serp}", { name: "u-serp", semantic: "Bogus" }),
        remove("/service-edge-router-policies/{serp}"),
      );
    });

    it("routers: of the edge, of the fabric, and what belongs to them", async () => {
      await both().expectSame(
        post(
          "/edge-routers",
          { name: "u-edge", isTunnelerEnabled: true, roleAttributes: ["r"] },
          { keep: { edge: "id" } },
        ),
        get("/edge-routers/{edge}"),
        post("/edge-routers", { name: "u-edge" }),
        post("/edge-routers", { name: "", cost: 1 }),
        post("/edge-routers", { name: "bad", cost: -1 }),
        get("/identities/{edge}"),
        remove("/identities/{edge}"),
        patch("/identities/{edge}", { name: "renamed" }),
        patch("/edge-routers/{edge}", { cost: 9, noTraversal: true, roleAttributes: null, tags: null }),
        get("/edge-routers/{edge}"),
        put("/edge-routers/{edge}", { name: "u-edge-2" }),
        get("/edge-routers/{edge}"),
        patch("/edge-routers/{edge}", { isTunnelerEnabled: true }),
        post("/edge-routers/{edge}/re-enroll", {}),
        post("/edge-routers/nowhere/re-enroll", {}),
        get("/edge-routers/{edge}/identities"),
        get("/edge-routers/{edge}/services"),
        get("/edge-routers/{edge}/edge-router-policies"),
        get("/edge-routers/{edge}/service-edge-router-policies"),
        get("/edge-routers/nowhere/services"),
        post("/transit-routers", { name: "u-transit", cost: 4 }, { keep: { transit: "id" } }),
        get("/transit-routers/{transit}"),
        post("/transit-routers", { name: "u-transit" }),
        patch("/transit-routers/{transit}", { noTraversal: true }),
        { ...get("/transit-routers/{transit}"), ours: IGNORED },
        put("/transit-routers/{transit}", { name: "u-transit-2", cost: 2 }),
        { ...get("/transit-routers/{transit}"), ours: IGNORED },
        {
          ...get("/transit-routers/{edge}"),
          ours: { status: 200, because: "the peer calls an edge router verified before it has enrolled" },
        },
        remove("/transit-routers/nowhere"),
        post("/services", { name: "u-hosted", encryptionRequired: false }, { keep: { hosted: "id" } }),
        post(
          "/terminators",
          { service: "{hosted}", router: "{edge}", binding: "edge", address: "a", cost: 3 },
          { keep: { terminator: "id" } },
        ),
        get("/terminators/{terminator}"),
        post("/terminators", { service: "{hosted}", router: "nowhere", binding: "edge", address: "a" }),
        post("/terminators", { service: "{hosted}", router: "{edge}", binding: "edge" }),
        post("/terminators", { service: "{hosted}", router: "{edge}", binding: "edge", address: "a", precedence: "x" }),
        patch("/terminators/{terminator}", { precedence: "failed", cost: 0 }),
        get("/terminators/{terminator}"),
        patch("/terminators/{terminator}", { cost: 65_536 }),
        get("/services/{hosted}/terminators"),
        get(`${FABRIC}/services/{hosted}`),
        get(`${FABRIC}/services/{hosted}/terminators`),
        get(`${FABRIC}/routers/{edge}/terminators`),
        get(`${FABRIC}/terminators/{terminator}`),
        get(`${FABRIC}/routers/{edge}`),
        get(`${FABRIC}/routers/nowhere`),
        get(`${FABRIC}/links`),
        get(`${FABRIC}/links/nowhere`),
        get(`${FABRIC}/circuits`),
        get(`${FABRIC}/circuits/nowhere`),
        post(`${FABRIC}/services`, { name: "u-hosted" }),
        post(`${FABRIC}/services`, { name: "u-fabric", terminatorStrategy: "weighted" }, { keep: { fabric: "id" } }),
        get(`${FABRIC}/services/{fabric}`),
        patch(`${FABRIC}/services/{fabric}`, { tags: { a: "b" } }),
        get(`${FABRIC}/services/{fabric}`),
        remove(`${FABRIC}/services/{fabric}`),
        { ...get(`${FABRIC}/services`), session: null },
        { ...get(`${FABRIC}/services?filter=bogus%3D1`) },
        get(`${FABRIC}/cluster/list-members`),
        post(`${FABRIC}/inspections`, { appRegex: "^nobody$", requestedValues: ["config"] }),
        post(`${FABRIC}/inspections`, {}),
        remove("/edge-routers/{edge}"),
        get("/terminators/{terminator}"),
        remove("/transit-routers/{transit}"),
        remove("/services/{hosted}"),
      );
    });

    it("posture checks", async () => {
      const check = (typeId: string, more: object) => ({ name: `u-${typeId}`, typeId, ...more });
      const process = {
        osType: "Linux",
        path: "/bin/av",
        hashes: ["ab".repeat(64)],
        signerFingerprint: "cd".repeat(20),
      };
      await both().expectSame(
        post("/posture-checks", check("DOMAIN", { domains: ["a"], roleAttributes: ["c"] }), { keep: { domain: "id" } }),
        get("/posture-checks/{domain}"),
        post("/posture-checks", check("DOMAIN", { domains: ["a"] })),
        post("/posture-checks", check("DOMAIN", { name: "bad" })),
        post("/posture-checks", check("BOGUS", { domains: ["a"] })),
        post("/posture-checks", check("MAC", { macAddresses: ["0123456789ab"] }), { keep: { mac: "id" } }),
        get("/posture-checks/{mac}"),
        post("/posture-checks", check("OS", { operatingSystems: [{ type: "Linux", versions: [">=1.0.0"] }] }), {
          keep: { os: "id" },
        }),
        get("/posture-checks/{os}"),
        post("/posture-checks", check("OS", { name: "bad", operatingSystems: [{ type: "Bogus" }] })),
        post("/posture-checks", check("PROCESS", { process }), { keep: { process: "id" } }),
        get("/posture-checks/{process}"),
        post("/posture-checks", check("PROCESS", { name: "bad", process: { path: "/x" } })),
        post("/posture-checks", check("MFA", { timeoutSeconds: 60, promptOnWake: true }), { keep: { mfa: "id" } }),
        get("/posture-checks/{mfa}"),
        patch("/posture-checks/{domain}", { typeId: "DOMAIN", domains: ["b", "c"], tags: { k: "v" } }),
        get("/posture-checks/{domain}"),
        patch("/posture-checks/{domain}", { typeId: "DOMAIN", roleAttributes: null }),
        get("/posture-checks/{domain}"),
        put("/posture-checks/{mac}", { name: "u-mac-2", typeId: "MAC", macAddresses: ["ab:cd:ef:01:23:45"] }),
        get("/posture-checks/{mac}"),
        patch("/posture-checks/nowhere", { typeId: "DOMAIN", domains: ["b"] }),
        get("/posture-checks?filter=typeId%3D%22MFA%22"),
        get("/posture-check-role-attributes"),
        ...["domain", "mac", "os", "process", "mfa"].map((name) => remove(`/posture-checks/{${name}}`)),
        remove("/posture-checks/{mfa}"),
      );
    });

    it("sessions, and what a client sees of itself", async () => {
      const client = (method: string, path: string, body?: NonNullable<Step["body"]>): Step => ({
        ...{ method, path: `${CLIENT}${path}`, session: "{session}" },
        ...(body !== undefined && { body }),
      });
      const updb = { method: "updb", identityId: "{person}", username: "u-person", password: "correct horse" };
      await both().expectSame(
        post("/identities", { name: "u-person", type: "Device", isAdmin: false }, { keep: { person: "id" } }),
        post("/services", { name: "u-service", encryptionRequired: true }, { keep: { service: "id" } }),
        post("/authenticators", updb, { keep: { authenticator: "id" } }),
        post(
          `${CLIENT}/authenticate?method=password`,
          { username: "u-person", password: "correct horse" },
          {
            ...{ session: null, keep: { session: "token", apiSession: "id" } },
          },
        ),
        client("GET", "/current-api-session"),
        client("GET", "/current-identity"),
        client("GET", "/current-identity/authenticators"),
        client("GET", "/current-identity/edge-routers"),
        client("GET", "/services"),
        client("GET", "/services/{service}"),
        client("GET", "/identities"),
        client("POST", "/sessions", { serviceId: "{service}", type: "Dial" }),
        client("POST", "/sessions", { serviceId: "nowhere", type: "Dial" }),
        client("POST", "/sessions", { serviceId: "{service}", type: "Bogus" }),
        client("GET", "/sessions"),
        client("GET", "/service-updates"),
        client("GET", "/current-api-session/service-updates"),
        client("GET", "/current-api-session/certificates"),
        client("POST", "/current-api-session/certificates", { csr: "none" }),
        { method: "GET", path: "/services", session: "{session}" },
        { method: "POST", path: "/services", session: "{session}", body: { name: "x", encryptionRequired: true } },
        client("PUT", "/current-identity/authenticators/{authenticator}", {
          ...{ username: "u-person", password: "x", currentPassword: "wrong" },
        }),
        client("PATCH", "/current-identity/authenticators/{authenticator}", {
          ...{ password: "another horse", currentPassword: "wrong" },
        }),
        client("PATCH", "/current-identity/authenticators/{authenticator}", {
          ...{ password: "another horse", currentPassword: "correct horse" },
        }),
        client("POST", "/posture-response", { typeId: "DOMAIN", id: "x", domain: "a" }),
        client("POST", "/posture-response", { typeId: "BOGUS", id: "x" }),
        get("/api-sessions/{apiSession}"),
        remove("/api-sessions/{apiSession}"),
        remove("/api-sessions/{apiSession}"),
        client("GET", "/current-api-session"),
        remove("/authenticators/{authenticator}"),
        remove("/identities/{person}"),
        remove("/services/{service}"),
        get("/sessions"),
        remove("/sessions/nowhere"),
      );
    });
  });
}
