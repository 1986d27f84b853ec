import { EventEmitter, once } from "node:events";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { DenialCode, isDenial } from "../../fabric/ports.ts";
import { totpCode } from "../../model/identity/totp.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
let routerId: string;
const gone = new Set<string>();
const removals = new EventEmitter();
beforeAll(async () => {
  c = await startTestController();
  c.fabricModel.onChange((change) => {
    if (change.kind !== "session-removed") return;
    gone.add(change.token);
    removals.emit("session");
  });
  routerId = await c.make("edge-routers", { name: "router" });
  const all = { semantic: "AnyOf", edgeRouterRoles: ["#all"] };
  await c.make("edge-router-policies", { name: "all", identityRoles: ["#all"], ...all });
  await c.make("service-edge-router-policies", { name: "all", serviceRoles: ["#all"], ...all });
});
afterAll(() => c.close());
afterEach(() => {
  c.clock.offsetMs = 0;
});

/** Resolves once the routers were told that the session is gone. */
async function removed(token: string): Promise<void> {
  while (!gone.has(token)) await once(removals, "session");
}

let count = 0;
/** An identity, a service, and a policy between them that asks for the checks; the identity's session. */
async function gated(...checks: object[]) {
  count += 1;
  const n = `n${count}`;
  const checkIds: string[] = [];
  for (const [i, check] of checks.entries()) {
    checkIds.push(await c.make("posture-checks", { name: `${n} ${i}`, roleAttributes: [n], ...check }));
  }
  const identityId = await c.make("identities", { name: n, type: "User", isAdmin: false, roleAttributes: [n] });
  await c.make("authenticators", { identityId, method: "updb", username: `user ${n}`, password: "password" });
  const serviceId = await c.make("services", { name: n, encryptionRequired: false, roleAttributes: [n] });
  const policyId = await c.make("service-policies", {
    name: `policy ${n}`,
    type: "Dial",
    semantic: "AnyOf",
    identityRoles: [`#${n}`],
    serviceRoles: [`#${n}`],
    postureCheckRoles: [`#${n}`],
  });
  const login = () => c.login(`user ${n}`, "password");
  const token = await login();
  const client = (method: string, path: string, body?: unknown) =>
    c.call(method, `/edge/client/v1${path}`, { token, body });
  return {
    n,
    identityId,
    serviceId,
    policyId,
    checkIds,
    token,
    login,
    client,
    session: () => client("POST", "/sessions", { serviceId, type: "Dial" }),
    report: (...responses: object[]) => client("POST", "/posture-response-bulk", responses),
    queries: async () => (await client("GET", `/services/${serviceId}`)).json.data.postureQueries,
    stamp: async () => (await client("GET", "/current-api-session/service-updates")).json.data.lastChangeAt,
    dial: (sessionToken: string) => c.fabricModel.authorizeDial({ sessionToken, apiSessionToken: token, routerId }),
    /** Turns TOTP on and passes it; answers the secret. */
    async useTotp() {
      await client("POST", "/current-identity/mfa");
      const { provisioningUrl } = (await client("GET", "/current-identity/mfa")).json.data;
      const secret = new URL(provisioningUrl).searchParams.get("secret") ?? "";
      const verified = await client("POST", "/current-identity/mfa/verify", { code: codeOf(secret) });
      expect(verified.status).toBe(200);
      return secret;
    },
  };
}
const codeOf = (secret: string) => totpCode(secret, new Date(Date.now() + c.clock.offsetMs));

const LINUX = { typeId: "OS", operatingSystems: [{ type: "Linux", versions: [">=5.0.0"] }] };
const os = (id: string, version: string) => ({ id, typeId: "OS", type: "linux", version, build: "" });

describe("a policy with a check", () => {
  it("gives no session while it fails, one when it passes, and takes it away when it fails again", async () => {
    const g = await gated(LINUX);
    const [checkId = ""] = g.checkIds;
    const refused = await g.session();
    expect([refused.status, refused.json.error.code, refused.json.error.cause]).toEqual([
      409,
      "INVALID_POSTURE",
      {
        message: `Failed to pass posture checks for service policies: [${g.policyId}]`,
        data: { [g.policyId]: [{ id: checkId, typeId: "OS", isPassing: false }] },
      },
    ]);
    const before = await g.stamp();
    const reported = await g.report(os(checkId, "6.8.0"));
    expect([reported.status, reported.json.data]).toEqual([201, { services: [] }]);
    expect(await g.stamp()).not.toBe(before);

    const session = (await g.session()).json.data;
    expect(isDenial(await g.dial(session.token))).toBe(false);
    const passing = await g.stamp();
    await g.report(os(checkId, "6.9.0"));
    expect(await g.stamp()).toBe(passing);

    await g.report(os(checkId, "4.0.0"));
    await removed(session.token);
    expect(await g.stamp()).not.toBe(passing);
    expect(await g.dial(session.token)).toEqual({ denied: DenialCode.InvalidSession });
    expect((await g.client("GET", `/sessions/${session.id}`)).status).toBe(404);
    expect((await g.session()).status).toBe(409);
  });

  it("lets through when another policy without failing checks grants the same", async () => {
    const g = await gated(LINUX);
    expect((await g.session()).status).toBe(409);
    const other = await c.make("service-policies", {
      name: `other ${g.n}`,
      type: "Dial",
      semantic: "AnyOf",
      identityRoles: [`#${g.n}`],
      serviceRoles: [`#${g.n}`],
    });
    const session = (await g.session()).json.data;
    expect(isDenial(await g.dial(session.token))).toBe(false);
    expect(await g.queries()).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ policyId: other, policyType: "Dial", isPassing: true, postureQueries: [] }),
        expect.objectContaining({ policyId: g.policyId, policyType: "Dial", isPassing: false }),
      ]),
    );
    await c.admin("DELETE", `/service-policies/${other}`);
    expect(await g.dial(session.token)).toEqual({ denied: DenialCode.InvalidSession });
  });

  it("wants every one of its checks", async () => {
    const g = await gated(
      LINUX,
      { typeId: "DOMAIN", domains: ["corp.example"] },
      { typeId: "MAC", macAddresses: ["01:23:45:67:89:ab"] },
      { typeId: "PROCESS", process: { osType: "Linux", path: "/a", hashes: ["ABCD"], signerFingerprint: "EF01" } },
      {
        typeId: "PROCESS_MULTI",
        semantic: "AllOf",
        processes: [
          { osType: "Linux", path: "/a" },
          { osType: "Linux", path: "/b" },
        ],
      },
    );
    const [osId = "", domainId = "", macId = "", processId = "", multiId = ""] = g.checkIds;
    const running = (id: string, path: string) => ({
      id,
      typeId: "PROCESS",
      path,
      isRunning: true,
      hash: "abcd",
      signerFingerprints: ["ef01"],
    });
    const steps: [object, string[]][] = [
      [os(osId, "5.0.0"), [domainId, macId, processId, multiId]],
      [{ id: domainId, typeId: "DOMAIN", domain: "CORP.EXAMPLE" }, [macId, processId, multiId]],
      [{ id: macId, typeId: "MAC", macAddresses: ["0123456789ab"] }, [processId, multiId]],
      [running(multiId, "/a"), [processId, multiId]],
      [running(processId, "/a"), [multiId]],
    ];
    for (const [report, failing] of steps) {
      expect((await g.client("POST", "/posture-response", report)).status).toBe(201);
      const [{ postureQueries, isPassing }] = await g.queries();
      const failed = postureQueries.filter((each: { isPassing: boolean }) => !each.isPassing);
      expect(failed.map((each: { id: string }) => each.id).sort()).toEqual(failing.toSorted());
      expect(isPassing).toBe(false);
      expect((await g.session()).status).toBe(409);
    }
    await g.report(running(multiId, "/b"));
    expect((await g.queries())[0].isPassing).toBe(true);
    expect((await g.session()).status).toBe(201);

    const data = (await c.admin("GET", `/identities/${g.identityId}/posture-data`)).json.data;
    expect(data).toMatchObject({
      os: { type: "linux", version: "5.0.0", postureCheckId: osId, timedOut: false },
      domain: { domain: "CORP.EXAMPLE" },
      mac: { addresses: ["0123456789ab"] },
      processes: [{ path: "/a" }, { path: "/a" }, { path: "/b", isRunning: true, binaryHash: "abcd" }],
    });
  });

  it("ends sessions when the check or the policy changes so that it fails", async () => {
    const g = await gated({ typeId: "DOMAIN", domains: ["a.example"] });
    const [checkId = ""] = g.checkIds;
    await g.report({ id: checkId, typeId: "DOMAIN", domain: "a.example" });
    const first = (await g.session()).json.data;
    const before = await g.stamp();
    await c.admin("PATCH", `/posture-checks/${checkId}`, { typeId: "DOMAIN", domains: ["b.example"] });
    expect(await g.stamp()).not.toBe(before);
    expect(await g.dial(first.token)).toEqual({ denied: DenialCode.InvalidSession });
    await removed(first.token);
    await c.admin("PATCH", `/posture-checks/${checkId}`, { typeId: "DOMAIN", domains: ["a.example"] });
    const second = (await g.session()).json.data;
    const wanted = await c.make("posture-checks", { name: `new ${g.n}`, typeId: "MAC", macAddresses: ["ff"] });
    await c.admin("PATCH", `/service-policies/${g.policyId}`, { postureCheckRoles: [`#${g.n}`, `@${wanted}`] });
    // Nobody dials: the sweep finds it.
    await removed(second.token);
  });

  it("is asked of administrators, too", async () => {
    const g = await gated(LINUX);
    await c.admin("PATCH", `/identities/${g.identityId}`, { isAdmin: true });
    expect((await g.session()).json.error.code).toBe("INVALID_POSTURE");
    await g.report(os(g.checkIds[0] ?? "", "6.0.0"));
    const session = (await g.session()).json.data;
    expect(isDenial(await g.dial(session.token))).toBe(false);
    await g.report(os(g.checkIds[0] ?? "", "1.0.0"));
    await removed(session.token);
  });

  it("counts for hosting, too", async () => {
    const g = await gated(LINUX);
    await c.admin("PATCH", `/service-policies/${g.policyId}`, { type: "Bind" });
    const bind = () => g.client("POST", "/sessions", { serviceId: g.serviceId, type: "Bind" });
    expect((await bind()).json.error.code).toBe("INVALID_POSTURE");
    await g.report(os(g.checkIds[0] ?? "", "6.0.0"));
    const session = (await bind()).json.data;
    const claim = { sessionToken: session.token, apiSessionToken: g.token, routerId };
    expect(isDenial(await c.fabricModel.authorizeBind(claim))).toBe(false);
    await g.report(os(g.checkIds[0] ?? "", "1.0.0"));
    await removed(session.token);
    expect(await c.fabricModel.authorizeBind(claim)).toEqual({ denied: DenialCode.InvalidSession });
  });
});

describe("a check for one-time codes", () => {
  const MFA = { typeId: "MFA", timeoutSeconds: 60, promptOnWake: true, promptOnUnlock: true };

  it("passes for a while after a code was given in the session, and then ends its sessions", async () => {
    const g = await gated(MFA);
    expect((await g.session()).json.error.code).toBe("INVALID_POSTURE");
    expect(await g.queries()).toMatchObject([
      { isPassing: false, postureQueries: [{ queryType: "MFA", timeout: 60, timeoutRemaining: 0, processes: null }] },
    ]);
    const before = await g.stamp();
    const secret = await g.useTotp();
    expect(await g.stamp()).not.toBe(before);
    const [{ isPassing, postureQueries }] = await g.queries();
    expect([isPassing, postureQueries[0].timeout]).toEqual([true, 60]);
    expect(postureQueries[0].timeoutRemaining).toBeGreaterThan(50);
    const session = (await g.session()).json.data;
    expect(isDenial(await g.dial(session.token))).toBe(false);

    c.clock.offsetMs += 61_000;
    await removed(session.token);
    expect((await g.session()).json.error.code).toBe("INVALID_POSTURE");
    expect((await g.queries())[0].postureQueries[0]).toMatchObject({ isPassing: false, timeoutRemaining: 0 });
    expect((await g.client("POST", "/authenticate/mfa", { code: codeOf(secret) })).status).toBe(200);
    expect((await g.session()).status).toBe(201);
  });

  it("wants a code anew within five minutes after the device woke up or was unlocked", async () => {
    const g = await gated({ ...MFA, timeoutSeconds: 0 });
    const secret = await g.useTotp();
    const session = (await g.session()).json.data;
    expect((await g.queries())[0].postureQueries[0]).toMatchObject({ timeout: -1, timeoutRemaining: -1 });
    const asked = (await g.queries())[0].postureQueries[0].updatedAt;
    const nothing = await g.report({ id: "0", typeId: "ENDPOINT_STATE", woken: false, unlocked: false });
    expect(nothing.json.data.services).toEqual([]);

    c.clock.offsetMs += 1000;
    const before = await g.stamp();
    const woken = await g.report({ id: "0", typeId: "ENDPOINT_STATE", woken: true });
    expect(woken.json.data.services).toEqual([
      { id: g.serviceId, name: g.n, postureQueryType: "MFA", timeout: -1, timeoutRemaining: 300 },
    ]);
    expect(await g.stamp()).not.toBe(before);
    const [query] = (await g.queries())[0].postureQueries;
    expect(query.isPassing).toBe(true);
    expect(query.timeoutRemaining).toBeGreaterThan(290);
    expect(query.updatedAt > asked).toBe(true);
    const posture = (await c.admin("GET", `/identities/${g.identityId}/posture-data`)).json.data;
    const [mine] = Object.values(posture.apiSessionPostureData) as [{ endpointState: object; mfa: object }];
    expect(mine).toMatchObject({
      endpointState: { unlockedAt: null, wokenAt: expect.any(String) },
      mfa: { passedMfa: true, passedOnWake: true, passedOnUnlock: true },
    });
    expect(isDenial(await g.dial(session.token))).toBe(false);

    c.clock.offsetMs += 301_000;
    await removed(session.token);
    expect((await g.session()).json.error.code).toBe("INVALID_POSTURE");
    await g.client("POST", "/authenticate/mfa", { code: codeOf(secret) });
    expect((await g.session()).status).toBe(201);
  });

  it("is answered per API session: another one of the identity has its own", async () => {
    const g = await gated({ ...MFA, timeoutSeconds: -1 });
    await g.useTotp();
    const other = await g.login();
    expect((await g.session()).status).toBe(201);
    const request = { token: other, body: { serviceId: g.serviceId, type: "Dial" } };
    expect((await c.call("POST", "/edge/client/v1/sessions", request)).status).toBe(401);
  });

  it("fails when the identity stops to use codes, or an administrator removes them", async () => {
    for (const end of ["own", "admin"]) {
      const g = await gated({ ...MFA, timeoutSeconds: -1 });
      const secret = await g.useTotp();
      const session = (await g.session()).json.data;
      if (end === "admin") await c.admin("DELETE", `/identities/${g.identityId}/mfa`);
      else {
        await c.call("DELETE", "/edge/client/v1/current-identity/mfa", {
          token: g.token,
          headers: { "mfa-validation-code": codeOf(secret) },
        });
      }
      await removed(session.token);
      expect((await g.session()).json.error.code).toBe("INVALID_POSTURE");
    }
  });

  it("reports no timeout to clients that do not know it, when it is told so", async () => {
    const g = await gated({ ...MFA, ignoreLegacyEndpoints: true });
    await g.useTotp();
    const remaining = async () => (await g.queries())[0].postureQueries[0].timeoutRemaining;
    expect(await remaining()).toBe(-1);
    for (const [version, knows] of [
      ["0.24.9", false],
      ["0.25.0", true],
      ["v1.9.10", true],
      ["dev", false],
    ] as const) {
      await c.call("POST", "/edge/client/v1/authenticate?method=password", {
        body: { username: `user ${g.n}`, password: "password", sdkInfo: { type: "ziti-sdk-c", version } },
      });
      expect([version, (await remaining()) >= 0]).toEqual([version, knows]);
    }
  });

  it("knows after a restart when codes were given", async () => {
    const g = await gated({ ...MFA, timeoutSeconds: 3600 });
    await g.useTotp();
    const { Posture } = await import("../../model/posture/posture.ts");
    const restarted = new Posture(c.ctx, c.model.policy);
    const identity = { id: g.identityId, attrs: [g.n] };
    const { id } = (await g.client("GET", "/current-api-session")).json.data;
    expect(await restarted.failures(identity, id, g.serviceId, "Dial")).toEqual([]);
    expect(await restarted.failures(identity, "another", g.serviceId, "Dial")).toHaveLength(1);
  });
});

describe("failed service requests", () => {
  it("are kept for administrators with what was wanted and what was known", async () => {
    const g = await gated(
      LINUX,
      { typeId: "DOMAIN", domains: ["corp.example"] },
      { typeId: "MAC", macAddresses: ["01"] },
      { typeId: "PROCESS", process: { osType: "Linux", path: "/a", hashes: ["aa"] } },
      { typeId: "PROCESS_MULTI", semantic: "AllOf", processes: [{ osType: "Linux", path: "/a" }] },
      { typeId: "MFA", timeoutSeconds: 60 },
    );
    const list = async () => (await c.admin("GET", `/identities/${g.identityId}/failed-service-requests`)).json.data;
    expect(await list()).toEqual([]);
    await g.session();
    await g.report(os(g.checkIds[0] ?? "", "4.0.0"));
    await g.session();
    const [first, second] = await list();
    expect(first).toMatchObject({
      serviceId: g.serviceId,
      serviceName: g.n,
      sessionType: "Dial",
      policyFailures: [{ policyId: g.policyId, policyName: `policy ${g.n}` }],
    });
    const checks = new Map(
      second.policyFailures[0].checks.map((each: { postureCheckType: string }) => [each.postureCheckType, each]),
    );
    expect([...checks.keys()].sort()).toEqual(["DOMAIN", "MAC", "MFA", "OS", "PROCESS", "PROCESS_MULTI"]);
    expect(checks.get("OS")).toMatchObject({
      postureCheckName: `${g.n} 0`,
      actualValue: { type: "linux", version: "4.0.0" },
      expectedValue: [{ type: "Linux", versions: [">=5.0.0"] }],
    });
    expect(checks.get("PROCESS")).toMatchObject({
      actualValue: { hash: "", isRunning: false, signerFingerprints: [], path: "/a", osType: "Linux" },
      expectedValue: { path: "/a", hashes: ["aa"] },
    });
    expect(checks.get("MFA")).toMatchObject({
      actualValue: { passedMfa: false, timedOut: false },
      expectedValue: { passedMfa: true, passedOnWake: true, passedOnUnlock: true, timedOut: false },
      criteria: { passedMfaAt: null, wokenAt: null, unlockedAt: null, timeoutSeconds: 60, timeoutRemainingSeconds: 0 },
    });
    expect((await c.admin("GET", "/identities/none/failed-service-requests")).status).toBe(404);
  });
});

describe("posture responses", () => {
  it("are accepted for unknown checks, with null for what is not known, and by definition names", async () => {
    const g = await gated();
    expect(
      (
        await g.report(
          { id: "unknown", typeId: "PROCESS", path: null, isRunning: null, hash: null, signerFingerprints: null },
          { id: "unknown", typeId: "PROCESS" },
          { id: "unknown", typeId: "postureResponseDomainCreate", domain: "d" },
          { id: "0", typeId: "ENDPOINT_STATE", woken: null },
          { id: "0", typeId: "ENDPOINT_STATE" },
        )
      ).status,
    ).toBe(201);
    expect((await g.report()).status).toBe(201);
    const empty = (await c.admin("GET", `/identities/${g.identityId}/posture-data`)).json.data;
    expect(empty).toMatchObject({
      domain: { domain: "d" },
      os: { type: "", lastUpdatedAt: null },
      mac: { addresses: [] },
    });
    expect((await c.admin("GET", "/identities/none/posture-data")).status).toBe(404);
  });

  it.each([
    ["without a type", [{ id: "a" }]],
    ["of an unknown type", [{ id: "a", typeId: "NEW" }]],
    ["without id", [{ typeId: "DOMAIN", domain: "d" }]],
    ["without its value", [{ id: "a", typeId: "OS", type: "linux" }]],
    ["that are too long", [{ id: "a", typeId: "DOMAIN", domain: "d".repeat(2000) }]],
    ["with too many values", [{ id: "a", typeId: "MAC", macAddresses: Array.from({ length: 101 }, () => "a") }]],
    ["that are no list", { id: "a", typeId: "DOMAIN", domain: "d" }],
  ])("%s are refused, and none of them is kept", async (_name, body) => {
    const g = await gated();
    const all = Array.isArray(body) ? [{ id: "x", typeId: "DOMAIN", domain: "kept" }, ...body] : body;
    expect((await g.client("POST", "/posture-response-bulk", all)).status).toBe(400);
    const { domain } = (await c.admin("GET", `/identities/${g.identityId}/posture-data`)).json.data;
    expect(domain.domain).toBe("");
  });

  it("are forgotten with the identity", async () => {
    const g = await gated(LINUX);
    await g.report(os(g.checkIds[0] ?? "", "6.0.0"));
    expect(c.model.posture.reports.hasReported(g.identityId)).toBe(true);
    await c.admin("DELETE", `/identities/${g.identityId}`);
    await c.ctx.store.changes.caughtUp();
    expect(c.model.posture.reports.hasReported(g.identityId)).toBe(false);
  });
});
