import { randomUUID } from "node:crypto";
import { silentLogger } from "@sallyport/wire";
import { sql } from "kysely";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { appendChange } from "../changes/change-log.ts";
import { openStore, type Store } from "../database.ts";
import { NotHeldError } from "../outage.ts";
import { testDatabase } from "../testing/test-store.ts";
import { beginEpoch } from "./epoch.ts";
import type { DatabaseHeldError } from "./holder-lock.ts";

let database: Awaited<ReturnType<typeof testDatabase>>;
let other: pg.Client;
const stores: Store[] = [];
beforeEach(async () => {
  database = await testDatabase();
  other = new pg.Client(database.connection);
  await other.connect();
});
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
  await other.end();
  await database.drop();
});

async function open(onLost: (error: DatabaseHeldError) => void = () => undefined): Promise<Store> {
  const store = await openStore({ connection: database.connection, onLost, log: silentLogger });
  stores.push(store);
  return store;
}
const setting = (name: string) => sql`INSERT INTO setting (name, value) VALUES (${name}, '1'::jsonb)`;
const settings = async () =>
  (await other.query<{ name: string }>("SELECT name FROM setting ORDER BY name")).rows.map(({ name }) => name);
/** Ends the connection that holds the lock, and says when the store is held again. */
async function loseLock(store: Store): Promise<void> {
  await other.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'sallyport-controller%'",
  );
  await expect.poll(() => store.changes.noticed().catch((error: unknown) => error)).toBeInstanceOf(NotHeldError);
}

describe("a controller whose epoch is over", () => {
  it("writes nothing any more, in no table, answers nothing from memory, and is told who works on the database", async () => {
    const lost = Promise.withResolvers<DatabaseHeldError>();
    const store = await open(lost.resolve);
    await setting("before").execute(store.db);
    await store.changes.caughtUp();
    await beginEpoch(other, "sallyport-controller two", randomUUID());
    for (let n = 0; n < 72; n++) {
      const write = store.transaction(async (trx) => {
        await setting(`after ${n}`).execute(trx);
        await appendChange(trx, { kind: "service", key: `${n}`, op: "create" });
      });
      await expect(write).rejects.toThrow("the database cannot be used now");
    }
    expect((await lost.promise).holder).toBe("sallyport-controller two");
    expect(await settings()).toEqual(["before"]);
    await expect(sql`SELECT 1`.execute(store.db)).rejects.toThrow(NotHeldError);
    await expect(store.changes.noticed()).rejects.toThrow(NotHeldError);
  });

  it("finds that without a write of its own", async () => {
    const lost = Promise.withResolvers<DatabaseHeldError>();
    await open(lost.resolve);
    await beginEpoch(other, "sallyport-controller two", randomUUID());
    expect((await lost.promise).message).toMatch(/in use by sallyport-controller two since \d{4}/);
  });

  it("has what it began before it was over committed before the next begins, or refused", async () => {
    const store = await open();
    const written = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const writing = store.transaction(async (trx) => {
      await setting("first").execute(trx);
      written.resolve();
      await gate.promise;
      await setting("second").execute(trx);
    });
    await written.promise;
    let hasBegun = false;
    const begun = beginEpoch(other, "sallyport-controller two", randomUUID()).then(() => {
      hasBegun = true;
    });
    const { rows } = await waiting(store);
    expect(rows).toHaveLength(1);
    expect(hasBegun).toBe(false);
    gate.resolve();
    await writing;
    await begun;
    expect(await settings()).toEqual(["first", "second"]);
  });

  const waiting = async (store: Store) => {
    const query = sql`SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`;
    await expect.poll(async () => (await query.execute(store.db)).rows.length).toBe(1);
    return query.execute(store.db);
  };

  it("is guarded against in every table", async () => {
    await open();
    const { rows } = await other.query(
      `SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
        AND c.relname NOT IN ('schema_migration', 'controller_epoch')
        AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = 'require_epoch' AND t.tgenabled = 'O')`,
    );
    expect(rows).toEqual([]);
  });
});

it("while the lock is lost nothing is asked or answered, and all is well when it is back", async () => {
  const store = await open();
  await store.changes.caughtUp();
  await loseLock(store);
  await expect(sql`SELECT 1`.execute(store.db)).rejects.toThrow(NotHeldError);
  await expect
    .poll(
      () =>
        store.changes.noticed().then(
          () => true,
          () => false,
        ),
      { timeout: 20_000 },
    )
    .toBe(true);
  await setting("after").execute(store.db);
  expect(await settings()).toEqual(["after"]);
});

describe("a database begins a new life", () => {
  const POSITION = "router-data-model";
  const fill = async (store: Store) => {
    await setting(POSITION).execute(store.db);
    await setting("change-log-pruned").execute(store.db);
    await appendChange(store.db as never, { kind: "service", key: "one", op: "create" });
  };
  const rows = async () => (await other.query("SELECT 1 FROM change_log")).rows.length;

  it.each([
    [
      "its rows were copied",
      "CREATE TEMP TABLE c AS TABLE controller_epoch; DELETE FROM controller_epoch; INSERT INTO controller_epoch TABLE c",
    ],
    [
      "a standby took over, or it was recovered",
      "UPDATE controller_epoch SET wal_timeline = '000000FF', xid = pg_current_xact_id()",
    ],
    ["it is of a time before epochs", "DELETE FROM controller_epoch"],
  ])("once, when %s", async (_name, move) => {
    const first = await open();
    await fill(first);
    await first.close();
    await (await open()).close();
    expect([await rows(), await settings()]).toEqual([1, ["change-log-pruned", POSITION]]);
    await other.query(move);
    const second = await open();
    expect([await rows(), await settings()]).toEqual([0, []]);
    await fill(second);
    await second.close();
    await open();
    expect([await rows(), await settings()]).toEqual([1, ["change-log-pruned", POSITION]]);
  });

  it("under a controller that goes on: its readers reload", async () => {
    const store = await open();
    await fill(store);
    await store.changes.caughtUp();
    const reset = Promise.withResolvers<void>();
    store.changes.subscribe({ name: "test", onChanges: () => undefined, onReset: () => reset.resolve() });
    await other.query("UPDATE controller_epoch SET wal_timeline = '000000FF', xid = pg_current_xact_id()");
    await loseLock(store);
    await reset.promise;
    expect([await rows(), await settings()]).toEqual([0, []]);
    await fill(store);
    expect(await rows()).toBe(1);
  });

  it("under a controller that goes on: a transaction of its former epoch fails alone", async () => {
    const store = await open();
    const begun = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const writing = store.transaction(async (trx) => {
      await sql`SELECT 1`.execute(trx);
      begun.resolve();
      await gate.promise;
      await setting("former").execute(trx);
    });
    await begun.promise;
    const reset = Promise.withResolvers<void>();
    store.changes.subscribe({ name: "test", onChanges: () => undefined, onReset: () => reset.resolve() });
    await other.query("UPDATE controller_epoch SET wal_timeline = '000000FF', xid = pg_current_xact_id()");
    await loseLock(store);
    await reset.promise;
    gate.resolve();
    await expect(writing).rejects.toThrow("another controller works on this database");
    await setting("present").execute(store.db);
    expect(await settings()).toEqual(["present"]);
  });
});
