import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { DenialCode, isDenial } from "../../fabric/ports.ts";
import { startGatedController } from "../testing/gated-controller.ts";
import type { TestController } from "../testing/test-controller.ts";

type Gated = Awaited<ReturnType<typeof startGatedController>>;

let c: TestController;
let routerId: string;
let removed: Gated["removed"];
let gated: Gated["gated"];
beforeAll(async () => {
  ({ c, routerId, removed, gated } = await startGatedController());
});
afterAll(() => c.close());
afterEach(() => {
  c.clock.offsetMs = 0;
});

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

  it("shows in the stamp what a report changed, also when that could not be written at first", async () => {
    const g = await gated(LINUX);
    const [checkId = ""] = g.checkIds;
    const before = await g.stamp();
    const { db } = c.ctx.store;
    await sql`ALTER TABLE change_log ADD CONSTRAINT full_disk CHECK (kind <> 'posture_state') NOT VALID`.execute(db);
    expect((await g.report(os(checkId, "6.8.0"))).status).toBe(500);
    await sql`ALTER TABLE change_log DROP CONSTRAINT full_disk`.execute(db);
    await expect.poll(() => g.stamp(), { timeout: 30_000 }).not.toBe(before);
  }, 40_000);

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
    // Without a dial the sweep finds it.
    await removed(second.token);
  });

  it("is asked of administrators, too", async () => {
    const g = await gated(LINUX);
    await c.admin("PATCH", `/identities/${g.identityId}`, { isAdmin: true });
    await g.useNewLogin();
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
    const claim = { sessionToken: session.token, apiSessionToken: g.token, routerId, checksPosture: false };
    expect(isDenial(await c.fabricModel.authorizeBind(claim))).toBe(false);
    await g.report(os(g.checkIds[0] ?? "", "1.0.0"));
    await removed(session.token);
    expect(await c.fabricModel.authorizeBind(claim)).toEqual({ denied: DenialCode.InvalidSession });
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

describe("a dial that posture does not allow any more", () => {
  it("is kept for administrators, too", async () => {
    const g = await gated(LINUX);
    const roles = { semantic: "AnyOf", identityRoles: [`#${g.n}`], serviceRoles: [`#${g.n}`] };
    const other = await c.make("service-policies", { name: `without checks ${g.n}`, type: "Dial", ...roles });
    const session = (await g.session()).json.data;
    const list = async () => (await c.admin("GET", `/identities/${g.identityId}/failed-service-requests`)).json.data;
    const { denied } = await c.ctx.store.db.transaction().execute(async (trx) => {
      // Nothing else ends the session meanwhile.
      await trx.selectFrom("session").select("id").where("id", "=", session.id).forUpdate().execute();
      await c.admin("DELETE", `/service-policies/${other}`);
      const refused = g.dial(session.token);
      refused.catch(() => {});
      await expect.poll(list, { timeout: 20_000 }).toHaveLength(1);
      return { denied: refused };
    });
    expect((await list())[0]).toMatchObject({
      serviceId: g.serviceId,
      serviceName: g.n,
      sessionType: "Dial",
      policyFailures: [{ policyId: g.policyId, checks: [{ postureCheckType: "OS" }] }],
    });
    expect(await denied).toEqual({ denied: DenialCode.InvalidSession });
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
    ["that are too many", Array.from({ length: 500 }, () => ({ id: "a", typeId: "DOMAIN", domain: "d" }))],
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
