import { silentLogger } from "@sallyport/wire";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { TestServer } from "../testing/test-server.ts";
import { HolderLock } from "./holder-lock.ts";

const ANSWER_MS = 300;
const NAME = "sallyport-controller one";

// A server of its own: it is set to wait for a standby that does not exist.
let server: TestServer;
let other: pg.Client;
let lock: HolderLock | undefined;
beforeAll(async () => {
  server = await TestServer.start();
}, 120_000);
afterAll(() => server.stop());
beforeEach(async () => {
  other = new pg.Client(server.connection);
  await other.connect();
});
afterEach(async () => {
  await awaitStandby(false);
  await lock?.release();
  await other.end();
});

async function awaitStandby(isOn: boolean): Promise<void> {
  await other.query(`ALTER SYSTEM SET synchronous_standby_names = '${isOn ? "*" : ""}'`);
  await other.query("SELECT pg_reload_conf()");
  const shown = () =>
    other.query("SHOW synchronous_standby_names").then(({ rows }) => rows[0].synchronous_standby_names);
  await expect.poll(shown).toBe(isOn ? "*" : "");
}

/** The lock's server processes; `isCommitting`: those that have waited for a standby for so long that no short query is waited for any more. */
async function processes(isCommitting: boolean): Promise<number[]> {
  const { rows } = await other.query<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity WHERE application_name = $1
      AND (NOT $2 OR wait_event = 'SyncRep' AND clock_timestamp() - query_start > $3 * interval '1 millisecond')`,
    [NAME, isCommitting, 2 * ANSWER_MS],
  );
  return rows.map(({ pid }) => pid);
}

/** A controller whose server has just failed over: the commit of its new epoch waits for a standby. */
async function committing() {
  const regained = Promise.withResolvers<boolean>();
  const onRegained = vi.fn(regained.resolve);
  lock = await HolderLock.acquire({
    connection: { ...server.connection, options: "-c synchronous_commit=on" },
    name: "one",
    answerMs: ANSWER_MS,
    onLost: regained.reject,
    onRegained,
    log: silentLogger,
  });
  await lock.begin();
  const before = lock.epoch;
  await awaitStandby(true);
  await other.query("UPDATE controller_epoch SET wal_timeline = '000000FF'");
  await other.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", [NAME]);
  await expect.poll(() => processes(true), { timeout: 20_000 }).toHaveLength(1);
  const [pid] = await processes(true);
  return { lock, before, pid, regained: regained.promise, onRegained };
}

it("the commit of an epoch may wait for a standby longer than a query for its answer", async () => {
  const { before, pid, regained, lock } = await committing();
  await awaitStandby(false);
  expect(await regained).toBe(true);
  expect(await processes(false)).toEqual([pid]);
  expect(lock.epoch).not.toBe(before);
}, 60_000);

it("an epoch whose commit took effect, but was not answered, is the controller's own, and begins a new life", async () => {
  const { before, pid, regained, lock, onRegained } = await committing();
  // The server commits without a standby, and does not say so.
  await other.query("SELECT pg_terminate_backend($1)", [pid]);
  expect(await regained).toBe(true);
  expect(onRegained).toHaveBeenCalledOnce();
  const { rows } = await other.query("SELECT epoch FROM controller_epoch");
  expect(rows).toEqual([{ epoch: lock.epoch }]);
  expect(lock.epoch).not.toBe(before);
}, 60_000);
