/** Posture at two controllers on one database: what a device reported to one counts at the other with its next request. */
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { isDenial } from "../../fabric/ports.ts";
import { startGatedController } from "../testing/gated-controller.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";

type Gated = Awaited<ReturnType<typeof startGatedController>>;
type Client = Awaited<ReturnType<Gated["gated"]>>;

let one: TestController;
let other: TestController;
let routerId: string;
let gated: Gated["gated"];
let codeOf: Gated["codeOf"];
beforeAll(async () => {
  ({ c: one, routerId, gated, codeOf } = await startGatedController());
  other = await startTestController({ beside: one });
});
afterAll(async () => {
  await other.close();
  await one.close();
});
afterEach(() => {
  one.clock.offsetMs = 0;
});

const LINUX = { typeId: "OS", operatingSystems: [{ type: "Linux", versions: [">=5.0.0"] }] };
const CORP = { typeId: "DOMAIN", domains: ["corp.example"] };
const os = (id: string | undefined, version: string) => ({ id, typeId: "OS", type: "linux", version, build: "" });
const domain = (id: string | undefined, text: string) => ({ id, typeId: "DOMAIN", domain: text });

const call = (at: TestController, { token }: Client, method: string, path: string, body?: unknown) =>
  at.call(method, `/edge/client/v1${path}`, { token, body });
const report = async (at: TestController, g: Client, ...reports: object[]) => {
  const { status } = await call(at, g, "POST", "/posture-response-bulk", reports);
  expect(status).toBeLessThan(300);
};
const session = (at: TestController, g: Client) =>
  call(at, g, "POST", "/sessions", { serviceId: g.serviceId, type: "Dial" });
/** Of a session at each controller, the one first that took no report. */
const seen = async (g: Client) => [(await session(other, g)).status, (await session(one, g)).status];
/** Whether the checks pass at each controller now, the one first that took no report. A session that is there goes on until the next sweep. */
const passes = async (g: Client) => {
  const { id } = (await call(one, g, "GET", "/current-api-session")).json.data;
  const identity = { id: g.identityId, attrs: [g.n] };
  const at = ({ model }: TestController) => model.posture.failures(identity, id, g.serviceId, "Dial");
  return [await at(other), await at(one)].map((failures) => failures.length === 0);
};
const dial = async (at: TestController, g: Client, sessionToken: string) =>
  isDenial(
    await at.fabricModel.authorizeDial({ sessionToken, apiSessionToken: g.token, routerId, checksPosture: false }),
  );

it("a report to one lets a session be made at the other, and one that fails ends it and refuses the next", async () => {
  const g = await gated(LINUX);
  const [check] = g.checkIds;
  expect(await seen(g)).toEqual([409, 409]);
  await report(one, g, os(check, "6.8.0"));
  const made = await session(other, g);
  expect(made.status).toBe(201);
  const { token } = made.json.data;
  expect([await dial(other, g, token), await dial(one, g, token)]).toEqual([false, false]);
  await report(other, g, os(check, "4.0.0"));
  expect([await dial(one, g, token), await dial(other, g, token)]).toEqual([true, true]);
  expect((await session(one, g)).status).toBe(409);
  await report(one, g, os(check, "6.9.0"));
  expect(await seen(g)).toEqual([201, 201]);
});

it("reports that come to both at once are joined: none is lost, whichever is written last", async () => {
  const g = await gated(LINUX, CORP);
  const [system, named] = g.checkIds;
  for (let i = 0; i < 4; i++) {
    const [version, name] = i % 2 ? ["6.8.0", "corp.example"] : ["4.0.0", "home.example"];
    await Promise.all([report(one, g, os(system, version ?? "")), report(other, g, domain(named, name ?? ""))]);
    expect((await seen(g)).every((status) => (status === 409) === (i % 2 === 0))).toBe(true);
  }
  const shown = async (at: TestController) => {
    const { os, domain } = (await at.admin("GET", `/identities/${g.identityId}/posture-data`)).json.data;
    return [os.version, domain.domain];
  };
  for (const at of [one, other]) expect(await shown(at)).toEqual(["6.8.0", "corp.example"]);
});

it("a report decides at the other also when it changed nothing at its own time: a policy may come to ask for it", async () => {
  const g = await gated(LINUX);
  await report(one, g, os(g.checkIds[0], "6.8.0"), domain("", "home.example"));
  expect(await seen(g)).toEqual([201, 201]);
  await one.make("posture-checks", { name: `corp ${g.n}`, roleAttributes: [g.n], ...CORP });
  expect(await passes(g)).toEqual([false, false]);
  await report(one, g, domain("", "corp.example"));
  expect(await passes(g)).toEqual([true, true]);
});

it("one-time codes passed, waking up and the end of an enrollment count at both", async () => {
  const g = await gated({ typeId: "MFA", timeoutSeconds: -1, promptOnWake: true, promptOnUnlock: false });
  expect(await seen(g)).toEqual([409, 409]);
  // At the first one.
  const secret = await g.useTotp();
  expect(await seen(g)).toEqual([201, 201]);
  one.clock.offsetMs += 60_000;
  await report(one, g, { id: "", typeId: "ENDPOINT_STATE", woken: true, unlocked: false });
  one.clock.offsetMs += 6 * 60_000;
  expect(await passes(g)).toEqual([false, false]);
  const passed = await call(other, g, "POST", "/authenticate/mfa", { code: codeOf(secret) });
  expect(passed.status).toBe(200);
  expect(await passes(g)).toEqual([true, true]);
  expect((await other.admin("DELETE", `/identities/${g.identityId}/mfa`)).status).toBe(200);
  expect(await passes(g)).toEqual([false, false]);
  expect((await session(one, g)).status).toBe(409);
});

it("the same reported again is written without a row of the change log", async () => {
  const g = await gated(LINUX);
  await report(one, g, os(g.checkIds[0], "6.8.0"));
  const rows = async () =>
    (await sql`SELECT FROM change_log WHERE key = ${g.identityId} AND kind LIKE 'posture%'`.execute(one.ctx.store.db))
      .rows.length;
  const before = await rows();
  expect(before).toBeGreaterThan(0);
  one.clock.offsetMs += 60_000;
  await report(other, g, os(g.checkIds[0], "6.8.0"));
  await other.model.posture.stored.flush();
  expect(await rows()).toBe(before);
});

it("clients see one instance id, whichever controller they reach, also after a restart", async () => {
  const instance = async (at: TestController) =>
    (await at.call("GET", "/edge/client/v1/version")).headers["ziti-instance-id"];
  const id = await instance(one);
  expect(id).toMatch(/.+/);
  expect(await instance(other)).toBe(id);
  await other.close();
  other = await startTestController({ beside: one });
  expect(await instance(other)).toBe(id);
});
