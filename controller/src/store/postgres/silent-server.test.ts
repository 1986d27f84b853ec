import { mkdtemp, rm } from "node:fs/promises";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@sallyport/wire";
import { Kysely, PostgresDialect, sql } from "kysely";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { restoreBackup } from "../backup/restore-backup.ts";
import { writeBackup } from "../backup/write-backup.ts";
import { openStore, type Store } from "../database.ts";
import { beginLongWork } from "../driver/statement.ts";
import { DatabaseUnavailableError } from "../outage.ts";
import { BreakableWay } from "../testing/breakable-way.ts";
import { testDatabase } from "../testing/test-store.ts";
import { migrate } from "../upgrade/migrate.ts";
import { HolderLock, requireUnheld } from "./holder-lock.ts";
import { watchLongWork } from "./long-work.ts";
import { StoreClient, withClient } from "./store-client.ts";

/** How long the server may take in these tests. */
const ANSWER_MS = 300;
const SILENCE = /does not answer in time; look at the server/;

let database: Awaited<ReturnType<typeof testDatabase>>;
let way: BreakableWay;
let folder: string;
const stores: Store[] = [];
beforeEach(async () => {
  database = await testDatabase();
  way = await BreakableWay.to(database.connection);
  folder = await mkdtemp(join(tmpdir(), "sallyport-silent-"));
});
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
  await way.close();
  await database.drop();
  await rm(folder, { recursive: true });
});

async function open(): Promise<Store> {
  const store = await openStore({ connection: way.connection, answerMs: ANSWER_MS, log: silentLogger });
  stores.push(store);
  return store;
}

describe("a server that goes silent", { timeout: 60_000 }, () => {
  it.each([
    ["the question for its version", "server_version_num"],
    ["the lock of the controller", "pg_try_advisory_lock"],
    ["the migrations", "to_regclass('schema_migration')"],
    ["the beginning of an epoch", "SET LOCAL lock_timeout"],
    ["the wait for the epoch before", "pg_advisory_xact_lock"],
    ["the settings of a connection", "SET statement_timeout = '10s'"],
    ["the epoch of a connection", "set_config('sallyport.epoch'"],
    ["the first snapshot", "pg_current_snapshot"],
  ])("at the start, at %s: the start fails and says which database and what to do", async (_where, text) => {
    way.silenceAt(text);
    const error = await open().catch((failure: Error) => failure);
    expect(String(error)).toMatch(SILENCE);
  });

  it("before its first word: the start fails", async () => {
    way.silence();
    const error = await open().catch((failure: Error) => failure);
    expect(String(error)).toMatch(/cannot use the database test_\w+ at /);
    expect(String(error)).toMatch(SILENCE);
  });

  it.each(["pg_backend_pid", "LISTEN"])("at the hints (%s): the controller starts without them", async (text) => {
    way.silenceAt(text);
    const store = await openStore({
      ...{ connection: way.connection, answerMs: ANSWER_MS, hold: false, log: silentLogger },
    }).catch((error: Error) => error);
    // The migrations' watch asks for its process, too, and is first.
    if (text === "LISTEN") stores.push(store as Store);
    else expect(String(store)).toMatch(SILENCE);
  });

  it("while it runs: statements, new connections and the transaction in progress fail as in an outage, and the store closes", async () => {
    const store = await open();
    const begun = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const writing = store.transaction(async (trx) => {
      await sql`SELECT 1`.execute(trx);
      begun.resolve();
      await gate.promise;
      await sql`SELECT 2`.execute(trx);
    });
    writing.catch(() => undefined);
    await begun.promise;
    way.silence();
    gate.resolve();
    const reading = Array.from({ length: 4 }, () => sql`SELECT 3`.execute(store.db));
    for (const failed of await Promise.allSettled([writing, ...reading])) {
      expect((failed as PromiseRejectedResult).reason).toBeInstanceOf(DatabaseUnavailableError);
    }
    expect(store.outage.since).toBeInstanceOf(Date);
    await store.close();
    stores.length = 0;
  });

  it("with free connections: none of them is taken for an answer, and the outage is said once", async () => {
    const lines: string[] = [];
    const note = (_fields: object, text: string) => void lines.push(text);
    const log = { ...silentLogger, info: note, warn: note, error: note };
    const store = await openStore({ connection: way.connection, answerMs: ANSWER_MS, hold: false, log });
    stores.push(store);
    await Promise.all(Array.from({ length: 6 }, () => sql`SELECT pg_sleep(0.05)`.execute(store.db)));
    expect(store.pool.idleCount).toBeGreaterThanOrEqual(6);
    lines.length = 0;
    way.silence();
    // The second statement gets another connection than the one that has just ended.
    for (const _ of [1, 2]) await expect(sql`SELECT 1`.execute(store.db)).rejects.toThrow(SILENCE);
    expect(store.outage.since).toBeInstanceOf(Date);
    expect(lines).toEqual(["the database cannot be used: requests are answered with 503 until it is back"]);
  });

  it("at rest: the store closes, and nothing of it keeps the process", async () => {
    const store = await open();
    const sockets = () => process.getActiveResourcesInfo().filter((name) => name === "PipeWrap").length;
    const before = sockets();
    way.silence();
    await store.close();
    stores.length = 0;
    await expect.poll(sockets, { timeout: 20_000 }).toBeLessThan(before);
    await way.close();
  });

  it("gives a long statement the time that its transaction asked for", async () => {
    const store = await open();
    await store.transaction(async (trx) => {
      await beginLongWork(trx);
      await sql`SELECT pg_sleep(${(5 * ANSWER_MS) / 1_000})`.execute(trx);
    });
    await expect(sql`SELECT pg_sleep(${(5 * ANSWER_MS) / 1_000})`.execute(store.db)).rejects.toThrow(SILENCE);
  });

  it("gives a commit the time that its transaction asked for", async () => {
    const store = await open();
    await store.pool.query(`CREATE TABLE slow ();
      CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(${(5 * ANSWER_MS) / 1_000}); RETURN NULL; END$$;
      CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`);
    const insert = async (isLong: boolean) =>
      store.transaction(async (trx) => {
        if (isLong) await beginLongWork(trx);
        await sql`INSERT INTO slow DEFAULT VALUES`.execute(trx);
      });
    await insert(true);
    await expect(insert(false)).rejects.toThrow(DatabaseUnavailableError);
  });

  it("does not keep who asks whether a controller works on it, nor who gives up the lock", async () => {
    const lock = await HolderLock.acquire({
      ...{ connection: way.connection, answerMs: ANSWER_MS, onLost: () => undefined, log: silentLogger },
    });
    way.silence();
    await expect(requireUnheld(way.connection, ANSWER_MS)).rejects.toThrow(/does not say whether a controller works/);
    await lock.release();
  });

  it("ends a backup and a restore that make no progress", async () => {
    const file = join(folder, "one");
    const options = { connection: way.connection, answerMs: ANSWER_MS };
    way.silenceAt("COPY (SELECT");
    await expect(writeBackup({ ...options, file })).rejects.toThrow(SILENCE);
    await writeBackup({ ...options, file });
    const other = await testDatabase();
    const onward = await BreakableWay.to(other.connection);
    try {
      onward.silenceAt('COPY "');
      const restored = restoreBackup({ ...options, connection: onward.connection, file });
      await expect(restored).rejects.toThrow(SILENCE);
    } finally {
      await onward.close();
      await other.drop();
    }
  });
});

it("a statement that works for long is left alone by the watch; one whose answer is lost is not", async () => {
  const pool = new pg.Pool({
    ...way.connection,
    max: 1,
    Client: StoreClient,
    onConnect: (client) => watchLongWork(client, way.connection, { answerMs: ANSWER_MS }),
  });
  pool.on("error", () => undefined);
  const db = new Kysely<never>({ dialect: new PostgresDialect({ pool }) });
  // More looks than the watch allows without success.
  await sql`SELECT pg_sleep(${(10 * ANSWER_MS) / 1_000})`.execute(db);
  way.silenceAt("'lost'");
  await expect(
    migrate(db, [{ id: "9001_a", kind: "expands", up: async (trx) => void (await sql`SELECT 'lost'`.execute(trx)) }]),
  ).rejects.toThrow();
  await db.destroy();
}, 60_000);

it("a connection of its own notices a server that has gone, whatever its settings say of that", async () => {
  const keepAlive = vi.spyOn(Socket.prototype, "setKeepAlive");
  await withClient({ ...database.connection, keepAlive: false, keepAliveInitialDelayMillis: 0 }, async () => undefined);
  expect(keepAlive).toHaveBeenCalledWith(true, 10_000);
  keepAlive.mockRestore();
});
