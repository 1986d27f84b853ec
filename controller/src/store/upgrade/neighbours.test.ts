import { type Logger, silentLogger } from "@sallyport/wire";
import { type Kysely, sql } from "kysely";
import pg from "pg";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { appendChange } from "../changes/change-log.ts";
import { openStore, type Store, type StoreOptions } from "../database.ts";
import { migrations } from "../migrations/all.ts";
import { DatabaseHeldError } from "../postgres/holder-lock.ts";
import { BreakableWay } from "../testing/breakable-way.ts";
import { lockWaits, testDatabase } from "../testing/test-store.ts";
import { MigrationError } from "./migrate.ts";
import type { Migration } from "./migration.ts";
import { SchemaTooNewError } from "./schema-state.ts";
import type { ProgramSchema } from "./schema-upgrade.ts";

const up = (statement: string) => async (trx: Kysely<unknown>) => void (await sql.raw(statement).execute(trx));
const EXPANSION: Migration = { id: "9001_a", kind: "expands", up: up("CREATE TABLE extra (n int)") };
const contraction = (statement: string): Migration => ({
  ...{ id: "9002_b", kind: "contracts", worksFrom: 9_001, up: up(statement) },
});
/** Programs of the tree, of the next version, and of the one that takes away what the tree needs. */
const TREE: ProgramSchema = {};
const NEXT: ProgramSchema = { migrations: [...migrations, EXPANSION] };
const CONTRACTING: ProgramSchema = {
  ...{ migrations: [...migrations, EXPANSION, contraction("CREATE TABLE contracted ()")], quietMs: 0, againMs: 50 },
};

let database: Awaited<ReturnType<typeof testDatabase>>;
let admin: pg.Client;
let stops: (() => Promise<unknown>)[];
beforeEach(async () => {
  database = await testDatabase();
  stops = [() => database.drop()];
  admin = new pg.Client(database.connection);
  admin.on("error", () => undefined);
  await admin.connect();
  stops.push(() => admin.end());
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
});

async function open(program: ProgramSchema, options: Partial<StoreOptions>): Promise<Store> {
  const store = await openStore({
    ...{ connection: database.connection, program, poolSize: 4, log: silentLogger },
    ...options,
  });
  stops.push(() => store.close());
  return store;
}

const replica = (id: string, program: ProgramSchema, options: Partial<StoreOptions> = {}) =>
  open(program, { replica: { id, version: `of ${id}` }, ...options });
const hasTable = async (name: string) =>
  (await admin.query("SELECT FROM pg_tables WHERE tablename = $1", [name])).rowCount === 1;

it("a newer replica starts beside an older one, and takes away what that one needs once it has stopped", async () => {
  const old = await replica("old", NEXT);
  const warnings: unknown[] = [];
  const log: Logger = { ...silentLogger, warn: (fields: object) => void warnings.push(fields) };
  const first = await replica("first", TREE);
  await replica("new", CONTRACTING, { log });
  expect([await hasTable("extra"), await hasTable("contracted")]).toEqual([true, false]);
  const controllers = [expect.stringMatching(/^first: sallyport-replica on .*, version of first$/)];
  expect(warnings).toEqual([{ migrations: ["9002_b"], controllers }]);
  // An older one may start again, and so may go back to an older version.
  await first.close();
  const again = await replica("first", TREE);
  await again.close();
  await old.close();
  await vi.waitFor(async () => expect(await hasTable("contracted")).toBe(true), { timeout: 20_000 });

  const refused = /works with programs of schema level 9001 or higher, and this program has level \d+; run the newer/;
  await expect(replica("first", TREE)).rejects.toThrow(refused);
  await expect(open(TREE, { hold: false })).rejects.toThrow(SchemaTooNewError);
  await replica("second", NEXT);
});

it("a replica whose lease has just run out may stand still: what it needs is not taken away yet", async () => {
  await admin.query(`INSERT INTO replica_lease (instance, replica_id, name, pid, leads, until, level)
    VALUES ('i', 'old', 'old', 0, false, now() - interval '5 s', 43)`);
  await replica("new", { ...CONTRACTING, quietMs: 60_000 });
  expect(await hasTable("contracted")).toBe(false);
  await admin.query("UPDATE replica_lease SET began_at = now() - interval '2 min'");
  await admin.query("UPDATE replica_lease SET until = now() - interval '2 min' WHERE instance = 'i'");
  await vi.waitFor(async () => expect(await hasTable("contracted")).toBe(true), { timeout: 20_000 });
});

it("after a crash of the database, which empties the table of leases, nothing is taken away until older replicas have theirs again", async () => {
  const way = await BreakableWay.to(database.connection);
  stops.push(() => way.close());
  await replica("old", TREE, { connection: way.connection });
  await way.cut();
  await admin.query("TRUNCATE replica_lease");
  const newer = await replica("new", { ...CONTRACTING, quietMs: 2_000 });
  await vi.waitFor(() => expect(newer.replica.isLeader).toBe(true), { timeout: 20_000 });
  expect(await hasTable("contracted")).toBe(false);
  await way.restore();
  const older = { replica_id: "old" };
  await vi.waitFor(
    async () => {
      const { rows } = await admin.query(
        "SELECT replica_id FROM replica_lease WHERE until > now() ORDER BY replica_id",
      );
      expect(rows).toEqual([{ replica_id: "new" }, older]);
    },
    { timeout: 20_000 },
  );
  // A lease is old enough now, and shows who needs the former schema.
  await vi.waitFor(
    async () => {
      const { rows } = await admin.query("SELECT FROM replica_lease WHERE began_at < now() - interval '2 s'");
      expect(rows.length).toBeGreaterThan(0);
    },
    { timeout: 20_000 },
  );
  expect(await hasTable("contracted")).toBe(false);
});

it("an older replica that comes back after its lease ran out stops, and works on nothing", async () => {
  const way = await BreakableWay.to(database.connection);
  stops.push(() => way.close());
  const onLost = vi.fn();
  await replica("old", TREE, { connection: way.connection, onLost });
  await way.cut();
  await replica("new", CONTRACTING);
  await vi.waitFor(async () => expect(await hasTable("contracted")).toBe(true), { timeout: 20_000 });
  await way.restore();
  await vi.waitFor(() => expect(onLost).toHaveBeenCalledWith(expect.any(SchemaTooNewError)), { timeout: 20_000 });
  const { rows } = await admin.query("SELECT replica_id FROM replica_lease WHERE until > now()");
  expect(rows).toEqual([{ replica_id: "new" }]);
});

it("an older replica that joins while the schema contracts waits, and is refused", async () => {
  await admin.query("CREATE TABLE gate ()");
  const wait = `DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM gate) LOOP PERFORM pg_sleep(0.01); END LOOP; END $$`;
  const program = { ...CONTRACTING, migrations: [...migrations, EXPANSION, contraction(wait)] };
  const newer = replica("new", program);
  // The expansion holds the lock for a moment, too.
  await vi.waitFor(async () => {
    const { rows } = await admin.query(
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query = $1",
      [wait],
    );
    expect(rows).toHaveLength(1);
  });
  const older = replica("old", TREE);
  older.catch(() => undefined);
  const { db } = await open(TREE, { hold: false });
  await lockWaits(db, 1);
  await admin.query("INSERT INTO gate DEFAULT VALUES");
  await newer;
  await expect(older).rejects.toThrow(SchemaTooNewError);
});

it("a controller that works alone stops when the schema contracted while its connection was lost", async () => {
  const way = await BreakableWay.to(database.connection);
  stops.push(() => way.close());
  const onLost = vi.fn();
  await open(TREE, { connection: way.connection, onLost });
  await way.cut();
  await admin.query("UPDATE schema_migration SET works_from = 9001 WHERE id = '0001_engine'");
  await way.restore();
  await vi.waitFor(() => expect(onLost).toHaveBeenCalledWith(expect.any(SchemaTooNewError)), { timeout: 20_000 });
});

it("a replica changes nothing in a database on which a controller works alone", async () => {
  await open(TREE, {});
  await expect(replica("new", CONTRACTING)).rejects.toThrow(DatabaseHeldError);
  expect([await hasTable("extra"), await hasTable("contracted")]).toEqual([false, false]);
});

it("messages of kinds that a replica does not know make it read the log, and nothing else", async () => {
  const lost = vi.fn();
  const one = await replica("one", TREE, { onLost: lost });
  const two = await replica("two", TREE, { onLost: lost });
  for (const text of ["x", "w", "q someone 5 two", "w someone many", "s someone 5", "{}", "n".repeat(4_000)]) {
    await admin.query("SELECT pg_notify('sallyport_change', $1)", [text]);
  }
  const seen: string[] = [];
  const note = (rows: readonly { readonly key: string }[]) => void seen.push(...rows.map(({ key }) => key));
  two.changes.subscribe({ name: "test", isPrompt: true, onChanges: note, onReset: () => void seen.push("reset") });
  await one.transaction((trx) => appendChange(trx, { kind: "of_a_newer_version", key: "after", op: "update" }));
  await one.replica.known();
  expect(seen).toEqual(["after"]);
  expect(one.replica.others.map(({ replicaId }) => replicaId)).toEqual(["two"]);
  expect(lost).not.toHaveBeenCalled();
});

it("a newer command changes nothing under controllers that work: it is refused if it needs more than they have", async () => {
  const old = await replica("old", TREE);
  const refused = open(CONTRACTING, { hold: false });
  await expect(refused).rejects.toThrow(MigrationError);
  await expect(refused).rejects.toThrow(
    /\(old: sallyport-replica on .*\): it needs the schema changes 9001_a; run the/,
  );
  expect(await hasTable("extra")).toBe(false);
  await old.close();
  await replica("next", NEXT);
  await open(CONTRACTING, { hold: false });
  expect([await hasTable("extra"), await hasTable("contracted")]).toEqual([true, false]);
});
