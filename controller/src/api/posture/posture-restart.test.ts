import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { isDenial } from "../../fabric/ports.ts";
import { createFabricModel } from "../../model/fabric/fabric-model.ts";
import { createModel, type Model } from "../../model/model.ts";
import { startUpkeep } from "../../model/upkeep.ts";
import { startGatedController } from "../testing/gated-controller.ts";
import type { TestController } from "../testing/test-controller.ts";

type Gated = Awaited<ReturnType<typeof startGatedController>>;

let c: TestController;
let routerId: string;
let gated: Gated["gated"];
beforeAll(async () => {
  ({ c, routerId, gated } = await startGatedController());
});
afterAll(() => c.close());
afterEach(() => {
  c.clock.offsetMs = 0;
});

const DAY_MS = 86_400_000;
const CHECKS = [
  { typeId: "OS", operatingSystems: [{ type: "Linux", versions: [">=5.0.0"] }] },
  { typeId: "DOMAIN", domains: ["corp.example"] },
  { typeId: "MAC", macAddresses: ["00:11:22:33:44:55"] },
  { typeId: "PROCESS", process: { osType: "Linux", path: "/agent", hashes: [] } },
];
type Client = Awaited<ReturnType<Gated["gated"]>>;

/** What passes all of {@link CHECKS}. */
function reportAll(g: Client) {
  const [os, domains, mac, process] = g.checkIds;
  return g.report(
    { id: os, typeId: "OS", type: "linux", version: "6.8.0", build: "" },
    { id: domains, typeId: "DOMAIN", domain: "corp.example" },
    { id: mac, typeId: "MAC", macAddresses: ["001122334455"] },
    { id: process, typeId: "PROCESS", path: "/agent", isRunning: true, hash: "", signerFingerprints: [] },
  );
}

/** As after a start on the same database. */
async function restarted<T>(work: (model: Model) => Promise<T>): Promise<T> {
  const model = createModel(c.ctx);
  try {
    return await work(model);
  } finally {
    model.policy.close();
  }
}

async function storedOf(identityId: string): Promise<Record<string, unknown> | undefined> {
  const { rows } = await sql<{ report: Record<string, unknown> }>`
    SELECT report FROM posture_report WHERE identity_id = ${identityId}`.execute(c.ctx.store.db);
  return rows[0]?.report;
}

/** Resolves when what was reported is written. */
const written = () => c.model.posture.stored.flush();

const failures = (model: Model, g: Client) =>
  model.posture.failures({ id: g.identityId, attrs: [g.n] }, "a new session", g.serviceId, "Dial");

it("after a restart a client passes without a new report, and its session is used on", async () => {
  const g = await gated(...CHECKS);
  await reportAll(g);
  const session = (await g.session()).json.data;
  const known = c.model.posture.reports.of(g.identityId, "").device;
  await written();
  await restarted(async (model) => {
    expect(model.posture.reports.isUnread(g.identityId)).toBe(false);
    expect(await failures(model, g)).toEqual([]);
    expect(model.posture.reports.of(g.identityId, "").device).toEqual(known);
  });
  await restarted(async (model) => {
    const fabric = createFabricModel(c.ctx, model);
    const grant = await fabric.authorizeDial({
      sessionToken: session.token,
      apiSessionToken: g.token,
      routerId,
      checksPosture: false,
    });
    fabric.close();
    expect(isDenial(grant)).toBe(false);
  });
  // Long after the start, when sessions without reports would end.
  await restarted(async (model) => {
    c.clock.offsetMs = 10 * 60_000;
    await model.posture.sweep();
  });
  expect((await g.client("GET", `/sessions/${session.id}`)).status).toBe(200);
});

it("after a restart a report that fails ends the session without grace, and a new one is joined to what is stored", async () => {
  const g = await gated(...CHECKS);
  await reportAll(g);
  const session = (await g.session()).json.data;
  await written();
  await sql`UPDATE posture_report SET report = (report::jsonb || '{"domain": {"at": 1, "checkId": "", "domain": "other"}}')::json
    WHERE identity_id = ${g.identityId}`.execute(c.ctx.store.db);
  await restarted(async (model) => {
    const failing = await failures(model, g);
    expect(failing.flatMap((each) => each.checks.map((check) => check.typeId))).toEqual(["DOMAIN"]);
  });
  await restarted((model) => model.posture.sweep());
  expect((await g.client("GET", `/sessions/${session.id}`)).status).toBe(404);
  await restarted(async (model) => {
    const identity = { id: g.identityId, attrs: [g.n] };
    await model.posture.report(identity, "s", [{ typeId: "DOMAIN", id: g.checkIds[1] ?? "", domain: "corp.example" }]);
    expect(await failures(model, g)).toEqual([]);
    await model.posture.stored.flush();
  });
  expect(await storedOf(g.identityId)).toMatchObject({
    os: { version: "6.8.0" },
    domain: { domain: "corp.example" },
    processes: [{ path: "/agent" }],
  });
});

it("a report that comes while a session is about to end saves it", async () => {
  const g = await gated({ typeId: "DOMAIN", domains: ["corp.example"] });
  const [check] = g.checkIds;
  await g.report({ id: check, typeId: "DOMAIN", domain: "corp.example" });
  const { id } = (await g.session()).json.data;
  let between = "corp.example";
  const { store } = c.ctx;
  const transaction: typeof store.transaction = (work) => {
    report(between);
    return store.transaction(work);
  };
  const model = createModel({ ...c.ctx, store: { ...store, transaction } });
  const report = (domain: string) =>
    model.posture.reports.add(g.identityId, "s", { typeId: "DOMAIN", id: check ?? "", domain }, c.ctx.now().getTime());
  await model.posture.ready([g.identityId]);
  const isIt = sql<boolean>`s.id = ${id}`;
  report("other");
  expect(await model.posture.endFailing(isIt)).toBe(0);
  expect((await g.client("GET", `/sessions/${id}`)).status).toBe(200);
  between = "other";
  report("other");
  expect(await model.posture.endFailing(isIt)).toBe(1);
  model.policy.close();
});

it("when the controller is killed no report is lost, only that the same was reported again", async () => {
  const g = await gated(...CHECKS);
  const identity = { id: g.identityId, attrs: [g.n] };
  const domain = (text: string) => ({ typeId: "DOMAIN", id: "x", domain: text }) as const;
  const storedDomain = async () =>
    ((await storedOf(g.identityId)) as { domain: { domain: string; at: number } }).domain;
  await restarted(async (killed) => {
    // Nothing passes by it that did not before.
    await killed.posture.report(identity, "s", [domain("fails")]);
    expect(killed.posture.reports.hasUnwritten).toBe(false);
  });
  const { at } = await storedDomain();
  c.clock.offsetMs = 60_000;
  await restarted(async (killed) => {
    await killed.posture.ready([g.identityId]);
    expect(killed.posture.reports.of(g.identityId, "").device.domain?.domain).toBe("fails");
    await killed.posture.report(identity, "s", [domain("fails")]);
    expect(killed.posture.reports.hasUnwritten).toBe(true);
  });
  expect(await storedDomain()).toMatchObject({ domain: "fails", at });
  await restarted(async (killed) => {
    await killed.posture.report(identity, "s", [domain("corp.example")]);
    expect(killed.posture.reports.hasUnwritten).toBe(false);
  });
  expect(await storedDomain()).toMatchObject({ domain: "corp.example" });
});

it("a graceful stop writes what is not written yet; texts are kept as they came", async () => {
  const g = await gated(...CHECKS);
  const domain = "nul \u0000, half a pair \ud800, 日本";
  const model = createModel(c.ctx);
  const upkeep = startUpkeep(c.ctx, model);
  const identity = { id: g.identityId, attrs: [g.n] };
  await model.posture.report(identity, "s", [{ typeId: "DOMAIN", id: "x", domain }]);
  await upkeep.stop();
  expect(model.posture.reports.hasUnwritten).toBe(false);
  await restarted(async (again) => {
    await again.posture.ready([g.identityId]);
    expect(again.posture.reports.of(g.identityId, "").device.domain?.domain).toBe(domain);
  });
});

it("goes with the identity, also when it was deleted before it was written", async () => {
  const [one, other] = [await gated(), await gated()];
  for (const g of [one, other]) await g.report({ id: "x", typeId: "DOMAIN", domain: "d" });
  await written();
  await other.report({ id: "x", typeId: "DOMAIN", domain: "e" });
  for (const g of [one, other]) expect((await c.admin("DELETE", `/identities/${g.identityId}`)).status).toBe(200);
  await c.model.posture.stored.flush();
  for (const g of [one, other]) expect(await storedOf(g.identityId)).toBeUndefined();
});

it("what is over the bounds goes in the store, too", async () => {
  const all = [await gated(), await gated(), await gated()];
  for (const g of all) await g.report({ id: "x", typeId: "DOMAIN", domain: g.n });
  await written();
  const [first, second, third] = all.map((g) => g.identityId);
  await restarted(async (model) => {
    await model.posture.ready([first ?? ""]);
    model.posture.reports.forgetIdentity(first ?? "");
    model.posture.reports.forgetIdentity(second ?? "");
    await model.posture.stored.flush();
  });
  expect(await storedOf(first ?? "")).toBeUndefined();
  expect(await storedOf(second ?? "")).toBeUndefined();
  expect(await storedOf(third ?? "")).toMatchObject({ domain: { domain: all[2]?.n } });
});

it("goes a week after the last API session", async () => {
  const [away, here] = [await gated(), await gated()];
  for (const g of [away, here]) await g.report({ id: "x", typeId: "DOMAIN", domain: "d" });
  await written();
  const sweep = () => c.model.posture.stored.expiry.sweep(new AbortController().signal);
  await sql`UPDATE api_session SET last_activity_at = ${new Date(Date.now() + 30 * DAY_MS)} WHERE identity_id = ANY (${[away.identityId, here.identityId]}::text[])`.execute(
    c.ctx.store.db,
  );
  c.clock.offsetMs = 6 * DAY_MS;
  await sweep();
  await sql`DELETE FROM api_session WHERE identity_id = ${away.identityId}`.execute(c.ctx.store.db);
  c.clock.offsetMs = 12 * DAY_MS;
  await sweep();
  expect(await storedOf(away.identityId)).toBeDefined();
  c.clock.offsetMs = 14 * DAY_MS;
  await sweep();
  expect(await storedOf(away.identityId)).toBeUndefined();
  expect(c.model.posture.reports.hasReported(away.identityId)).toBe(false);
  expect(await storedOf(here.identityId)).toBeDefined();
});
