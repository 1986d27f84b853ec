import { silentLogger } from "@sallyport/wire";
import { sql } from "kysely";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { appendChange } from "../../store/changes/change-log.ts";
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import { openStore, type Store } from "../../store/database.ts";
import { testDatabase } from "../../store/testing/test-store.ts";
import { LeaderChanges } from "./leader-changes.ts";

interface Side {
  readonly store: Store;
  readonly changes: LeaderChanges;
  unsubscribe(): void;
}

let database: Awaited<ReturnType<typeof testDatabase>>;
let sides: Side[];
/** What was told, by whichever side. */
let told: string[];
let lost: number;
beforeEach(async () => {
  database = await testDatabase();
  sides = [];
  told = [];
  lost = 0;
});
afterEach(async () => {
  for (const side of [...sides]) await stop(side);
  await database.drop();
});

async function start(id: string): Promise<Side> {
  const { connection } = database;
  const store = await openStore({ connection, replica: { id }, poolSize: 4, log: silentLogger });
  const { db, changes: log, replica } = store;
  const changes = new LeaderChanges({ db, changes: log, replica, now: () => store.clock.now(), log: silentLogger });
  const unsubscribe = changes.subscribe({
    name: "test",
    onChanges: (rows: readonly ChangeRow[]) => void told.push(...rows.map(({ key }) => `${key} by ${id}`)),
    onReset: () => void lost++,
  });
  const side = { store, changes, unsubscribe };
  sides.push(side);
  return side;
}

async function stop(side: Side): Promise<void> {
  sides = sides.filter((each) => each !== side);
  await side.changes.close();
  await side.store.close();
}

const write = ({ store }: Side, ...keys: string[]) =>
  store.transaction((trx) =>
    appendChange(trx, ...keys.map((key) => ({ kind: "service", key, op: "update" }) as const)),
  );
const keys = () => told.map((text) => text.split(" ")[0]);
const untilTold = (...expected: string[]) =>
  vi.waitFor(() => expect(keys()).toEqual(expect.arrayContaining(expected)), { timeout: 20_000 });
const untilLeads = ({ store }: Side) =>
  vi.waitFor(() => expect(store.replica.isLeader).toBe(true), { timeout: 20_000 });

describe("changes of several controllers", { timeout: 90_000 }, () => {
  it("are told by the leader alone, whichever of them writes", async () => {
    const [one, two] = [await start("one"), await start("two")];
    await write(one, "a");
    await write(two, "b");
    await untilTold("a", "b");
    await write(one, "c");
    await untilTold("c");
    expect(told).toEqual(["a by one", "b by one", "c by one"]);
  });

  it("are told once each by one leader after the other, also those written while none leads", async () => {
    const one = await start("one");
    const two = await start("two");
    const expected: string[] = [];
    let isWriting = true;
    const writer = (async () => {
      for (let n = 0; isWriting; n++) {
        expected.push(`k${n}`);
        await write(two, `k${n}`);
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    await vi.waitFor(() => expect(told.length).toBeGreaterThan(10), { timeout: 20_000 });
    await stop(one);
    await untilLeads(two);
    const three = await start("three");
    await vi.waitFor(() => expect(told.some((text) => text.endsWith("by two"))).toBe(true), { timeout: 20_000 });
    isWriting = false;
    await writer;
    await untilTold(...expected);
    expect(keys()).toEqual(expected);
    expect(new Set(told.map((text) => text.split(" by ")[1]))).toEqual(new Set(["one", "two"]));
    expect(three.store.replica.isLeader).toBe(false);
    expect(lost).toBe(0);
  });

  it("are not told by a leader that has lost its right, though it has read them", async () => {
    const one = await start("one");
    await write(one, "a");
    await untilTold("a");
    // Another epoch: its right is gone, and it does not know yet.
    await sql`UPDATE controller_epoch SET epoch = 'other', xid = pg_current_xact_id()`.execute(one.store.db);
    await write(one, "b");
    await vi.waitFor(() => expect(one.store.replica.isLeader).toBe(false), { timeout: 20_000 });
    expect(keys()).toEqual(["a"]);
    await untilLeads(one);
    await untilTold("b");
    expect([keys(), lost]).toEqual([["a", "b"], 0]);
  });

  it("that a new life of the database has no more are lost, and said to be", async () => {
    const one = await start("one");
    await write(one, "a");
    await untilTold("a");
    await sql`UPDATE controller_epoch SET wal_timeline = '000000FF', epoch = 'former'`.execute(one.store.db);
    await vi.waitFor(() => expect(lost).toBe(1), { timeout: 20_000 });
    await untilLeads(one);
    await write(one, "b");
    await untilTold("b");
    expect(keys()).toEqual(["a", "b"]);
  });

  it("from before there was a listener are not told", async () => {
    const one = await start("one");
    await write(one, "a");
    await untilTold("a");
    one.unsubscribe();
    await write(one, "unheard");
    await one.store.changes.caughtUp();
    const two = await start("two");
    await one.changes.close();
    await stop(one);
    await untilLeads(two);
    await write(two, "b");
    await untilTold("b");
    expect(keys()).toEqual(["a", "b"]);
  });
});
