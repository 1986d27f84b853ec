import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { silentLogger } from "@sallyport/wire";
import { sql } from "kysely";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { appendChange } from "../changes/change-log.ts";
import type { ChangeRow } from "../changes/change-log-reads.ts";
import { openStore, type Store } from "../database.ts";
import { DatabaseHeldError } from "../postgres/holder-lock.ts";
import { BreakableWay } from "../testing/breakable-way.ts";
import { testDatabase } from "../testing/test-store.ts";
import { ReplicaIdTakenError } from "./replica-link.ts";

type Change = Parameters<typeof appendChange>[1];

let database: Awaited<ReturnType<typeof testDatabase>>;
let stops: (() => Promise<unknown>)[];
beforeEach(async () => {
  database = await testDatabase();
  stops = [];
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
  await database.drop();
});

async function replica(id: string, connection = database.connection, onQuery = () => {}): Promise<Store> {
  const store = await openStore({ connection, replica: { id }, poolSize: 4, onQuery, log: silentLogger });
  stops.push(() => store.close());
  return store;
}

/** A process with a store of its own: it can be stopped and killed. */
async function replicaProcess(id: string): Promise<ChildProcess> {
  const program = new URL("../testing/holder-process.ts", import.meta.url).pathname;
  const where = { connection: database.connection, replica: { id } };
  const child = spawn(process.execPath, [program, JSON.stringify(where)], { stdio: ["ignore", "pipe", "inherit"] });
  stops.push(async () => {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
  const [said] = await once(createInterface({ input: child.stdout! }), "line");
  expect(said).toBe("open");
  return child;
}

const write = (store: Store, ...changes: Change[]) => store.transaction((trx) => appendChange(trx, ...changes));

async function member(...stores: Store[]): Promise<void> {
  for (const store of stores) {
    await vi.waitFor(() => expect(store.replica.others).toHaveLength(stores.length - 1), { timeout: 10_000 });
  }
}

const untilLeads = (store: Store, timeout = 20_000) =>
  vi.waitFor(() => expect(store.replica.isLeader).toBe(true), { timeout });

it("two replicas know each other, and one of them leads", async () => {
  const one = await replica("one");
  const two = await replica("two");
  await member(one, two);
  expect(two.replica.others.map(({ replicaId }) => replicaId)).toEqual(["one"]);
  await vi.waitFor(() => expect(one.replica.others.map(({ replicaId }) => replicaId)).toEqual(["two"]));
  expect([one.replica.isLeader, two.replica.isLeader]).toEqual([true, false]);
  await one.close();
  await untilLeads(two);
  expect(two.replica.others).toEqual([]);
});

it("what one has written the other knows before it is answered, although it asks the database for nothing", async () => {
  const asked = vi.fn();
  const one = await replica("one");
  const two = await replica("two", database.connection, asked);
  await member(one, two);
  const seen: string[] = [];
  two.changes.subscribe({
    name: "test",
    isPrompt: true,
    onChanges: (rows: readonly ChangeRow[]) => void seen.push(...rows.map((row) => row.key)),
    onReset: () => undefined,
  });
  for (let n = 0; n < 50; n++) {
    await write(one, { kind: "service", key: `s${n}`, op: "update" });
    await one.replica.known();
    expect(seen.at(-1)).toBe(`s${n}`);
  }
  // From memory: as often as it is asked.
  await vi.waitFor(async () => {
    asked.mockClear();
    for (let n = 0; n < 100; n++) await two.changes.noticed();
    expect(asked.mock.calls.length).toBeLessThan(5);
  });
});

it("a process that stands still is waited for until its lease has run out, and then for no longer", async () => {
  const one = await replica("one");
  const child = await replicaProcess("two");
  await vi.waitFor(() => expect(one.replica.others).toHaveLength(1));
  child.kill("SIGSTOP");
  await vi.waitFor(() => expect(one.replica.others).toEqual([]), { timeout: 10_000 });
  await write(one, { kind: "service", key: "s", op: "update" });
  await one.replica.known();
  child.kill("SIGCONT");
  await vi.waitFor(() => expect(one.replica.others).toHaveLength(1), { timeout: 10_000 });
});

it("another one leads when the leader is killed, or stands still, and the former one writes nothing as a leader any more", async () => {
  const child = await replicaProcess("one");
  const two = await replica("two");
  expect(two.replica.isLeader).toBe(false);
  await expect(sql`SELECT 1`.execute(two.replica.leaderDb)).rejects.toThrow("cannot be used");
  child.kill("SIGSTOP");
  await untilLeads(two);
  await sql`INSERT INTO setting (name, value) VALUES ('test', '1')`.execute(two.replica.leaderDb);
  const epochs = await sql<{ holder: string }>`SELECT holder FROM controller_epoch`.execute(two.db);
  expect(epochs.rows[0]?.holder).toContain(`process ${process.pid}`);
  child.kill("SIGCONT");
  await vi.waitFor(() => expect(two.replica.others.map(({ replicaId }) => replicaId)).toEqual(["one"]), {
    timeout: 10_000,
  });
  expect(two.replica.isLeader).toBe(true);
  child.kill("SIGKILL");

  const third = await replicaProcess("three");
  await two.close();
  const four = await replica("four");
  third.kill("SIGKILL");
  await untilLeads(four);
});

it("an epoch that another process has begun ends the lead, also when the lock was not lost", async () => {
  const one = await replica("one");
  await sql`UPDATE controller_epoch SET epoch = 'other'`.execute(one.db);
  await expect(sql`DELETE FROM setting`.execute(one.replica.leaderDb)).rejects.toThrow("another controller");
  expect(one.replica.isLeader).toBe(false);
  await untilLeads(one);
  await sql`DELETE FROM setting WHERE name = 'test'`.execute(one.replica.leaderDb);
});

it("a lost connection is made again, and meanwhile the log is read for each question", async () => {
  const way = await BreakableWay.to(database.connection);
  stops.push(() => way.close());
  const one = await replica("one");
  const two = await replica("two", way.connection);
  await member(one, two);
  const keys: string[] = [];
  const onReset = vi.fn();
  two.changes.subscribe({
    name: "test",
    onChanges: (rows: readonly ChangeRow[]) => void keys.push(...rows.map((row) => row.key)),
    onReset,
  });
  await way.cut();
  await write(one, { kind: "service", key: "during", op: "update" });
  await way.restore();
  await vi.waitFor(() => two.changes.caughtUp());
  expect(keys).toEqual(["during"]);
  expect(onReset).not.toHaveBeenCalled();
  await member(one, two);
});

it("what a replica without a lease has written another one, which has not heard of it, knows before it is answered", async () => {
  const way = await BreakableWay.to(database.connection);
  stops.push(() => way.close());
  const one = await replica("one", way.connection);
  // Its renewals, and nothing else, come to nothing.
  way.silenceAt("replica_lease");
  const asked = vi.fn();
  const two = await replica("two", database.connection, asked);
  const seen: string[] = [];
  two.changes.subscribe({
    name: "test",
    isPrompt: true,
    onChanges: (rows: readonly ChangeRow[]) => void seen.push(...rows.map((row) => row.key)),
    onReset: () => undefined,
  });
  await vi.waitFor(
    async () => {
      asked.mockClear();
      for (let n = 0; n < 20; n++) await two.changes.noticed();
      expect(asked.mock.calls.length).toBeLessThan(3);
    },
    { timeout: 10_000 },
  );
  for (let n = 0; n < 3; n++) {
    await write(one, { kind: "service", key: `s${n}`, op: "update" });
    await one.replica.known();
    await two.changes.noticed();
    expect(seen.at(-1)).toBe(`s${n}`);
  }
});

it("in a new life of the database everything is loaded again", async () => {
  const one = await replica("one");
  const onReset = vi.fn();
  // Not from memory: it may have read nothing since the first life began.
  await one.changes.hinted();
  one.changes.subscribe({ name: "test", onChanges: () => undefined, onReset });
  await one.changes.caughtUp();
  // As after a failover: the server is on another timeline than the epoch.
  await sql`UPDATE controller_epoch SET wal_timeline = '000000FF', epoch = 'former'`.execute(one.db);
  await expect(one.changes.hinted()).rejects.toThrow("another database server took over");
  await vi.waitFor(() => one.changes.caughtUp(), { timeout: 10_000 });
  expect(onReset).toHaveBeenCalledOnce();
});

it("an id belongs to one process, and a database to replicas or to one controller alone", async () => {
  const one = await replica("one");
  await expect(replica("one")).rejects.toThrow(ReplicaIdTakenError);
  await expect(replica("one")).rejects.toThrow(/the replica id 'one' is in use by sallyport-replica on /);
  await expect(openStore({ connection: database.connection, log: silentLogger })).rejects.toThrow(DatabaseHeldError);
  await one.close();
  const alone = await openStore({ connection: database.connection, log: silentLogger });
  stops.push(() => alone.close());
  await expect(replica("two")).rejects.toThrow(DatabaseHeldError);
});
