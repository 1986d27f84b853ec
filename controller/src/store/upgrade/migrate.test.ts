import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@sallyport/wire";
import { Kysely, PostgresDialect, sql } from "kysely";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { verifyBackup } from "../backup/restore-backup.ts";
import { writeBackup } from "../backup/write-backup.ts";
import { openStore, type Store } from "../database.ts";
import { migrations } from "../migrations/all.ts";
import { SCHEMA_LOCK } from "../replicas/lease.ts";
import { lockWaits, testDatabase } from "../testing/test-store.ts";
import { MigrationError, migrate } from "./migrate.ts";
import { levelOf, type Migration } from "./migration.ts";
import { SchemaTooNewError } from "./schema-state.ts";

let database: Awaited<ReturnType<typeof testDatabase>>;
let stores: Store[];
beforeEach(async () => {
  database = await testDatabase();
  stores = await Promise.all(
    [1, 2].map(() => openStore({ connection: database.connection, hold: false, log: silentLogger })),
  );
});
afterEach(async () => {
  for (const store of stores) await store.close();
  await database.drop();
});

const dbOf = (store: Store) => store.db as unknown as Kysely<never>;
const db = () => dbOf(stores[0]!);
const up = (statement: string) => async (trx: Kysely<unknown>) => void (await sql.raw(statement).execute(trx));
const expands = (id: string, statement: string): Migration => ({ id, kind: "expands", up: up(statement) });
const contracts = (id: string, worksFrom: number, statement: string): Migration => ({
  ...{ id, kind: "contracts", worksFrom, up: up(statement) },
});
const tables = async (name: string) =>
  (await stores[0]!.pool.query("SELECT FROM pg_tables WHERE tablename = $1", [name])).rowCount;

describe("migrations", () => {
  it("run once each, in order, however many start at the same time", async () => {
    const more = [
      ...migrations,
      expands("9001_a", "CREATE TABLE extra (n int)"),
      expands("9002_b", "INSERT INTO extra VALUES (1)"),
    ];
    const done = await Promise.all(stores.map((store) => migrate(dbOf(store), more)));
    expect(done.map(({ applied }) => applied.length).sort()).toEqual([0, 2]);
    expect((await stores[0]!.pool.query("SELECT n FROM extra")).rows).toEqual([{ n: 1 }]);
  });

  it("leave nothing half done, and are listed in order", async () => {
    const broken = [...migrations, expands("9003_c", "CREATE TABLE half (n int); SELECT 1 / 0")];
    await expect(migrate(db(), broken)).rejects.toThrow("division by zero");
    expect(await tables("half")).toBe(0);
    await expect(migrate(db(), [...migrations].reverse())).rejects.toThrow(MigrationError);
  });

  it("of a newer program that expand are no obstacle to an older one; one that contracts refuses it, and says what to do", async () => {
    const newer = [...migrations, expands("9001_a", "CREATE TABLE extra (n int)")];
    await migrate(db(), newer);
    expect(await migrate(db(), migrations)).toEqual({ applied: [], postponed: [], older: [] });
    await migrate(db(), [...newer, contracts("9002_b", 9_001, "DROP TABLE extra")]);
    await expect(migrate(db(), migrations)).rejects.toThrow(SchemaTooNewError);
    await expect(migrate(db(), migrations)).rejects.toThrow(
      `works with programs of schema level 9001 or higher, and this program has level ${levelOf(migrations)}; run the newer version, or restore`,
    );
    expect((await migrate(db(), newer)).applied).toEqual([]);
  });

  it("wait for a table that is in use without holding up requests", async () => {
    const more = [...migrations, expands("9001_a", "ALTER TABLE identity ADD COLUMN extra int")];
    const reader = await stores[0]!.pool.connect();
    await reader.query("BEGIN; LOCK TABLE identity IN ACCESS SHARE MODE");
    const pool = new pg.Pool({ ...database.connection, max: 1 });
    const own = new Kysely<never>({ dialect: new PostgresDialect({ pool }) });
    const done = migrate(own, more);
    await lockWaits(stores[0]!.db, 1);
    // It is answered although the reader goes on.
    await stores[0]!.db.selectFrom("identity").select("id").execute();
    await reader.query("COMMIT");
    reader.release();
    expect((await done).applied).toEqual(["9001_a"]);
    await own.destroy();
  });

  it("wait for a program that needs the schema as it is, and say so", async () => {
    const holder = await stores[0]!.pool.connect();
    await holder.query("SELECT pg_advisory_lock_shared($1, $2)", [...SCHEMA_LOCK]);
    const told = Promise.withResolvers<string>();
    const log = { ...silentLogger, warn: (_: object, text?: string) => told.resolve(text ?? "") };
    const done = migrate(dbOf(stores[1]!), [...migrations, expands("9001_a", "CREATE TABLE extra (n int)")], { log });
    expect(await told.promise).toContain("cannot be upgraded yet");
    expect(await tables("extra")).toBe(0);
    await holder.query("SELECT pg_advisory_unlock_all()");
    holder.release();
    expect((await done).applied).toEqual(["9001_a"]);
  });

  it("bring a database of version 0.1.0 up to date, and record what works on it", async () => {
    await stores[0]!.pool.query("ALTER TABLE schema_migration DROP COLUMN works_from");
    await migrate(db(), migrations);
    const more = [...migrations, contracts("9001_a", 9_001, "SELECT 1")];
    await migrate(db(), more);
    const { rows } = await stores[0]!.pool.query("SELECT max(works_from) AS level FROM schema_migration");
    expect(rows).toEqual([{ level: 9_001 }]);
  });

  it("make a default administrator that had lost the mark an administrator again, who has to log in again", async () => {
    const { pool } = stores[0]!;
    // As it was before.
    await pool.query("ALTER TABLE identity DROP CONSTRAINT identity_default_admin_is_admin");
    await pool.query("DELETE FROM schema_migration WHERE id = '0014_default_administrator'");
    await pool.query(`INSERT INTO auth_policy (id, name, cert_allowed, cert_allow_expired, updb_allowed, ext_jwt_allowed)
      VALUES ('default', 'Default', true, true, true, true)`);
    await pool.query(`INSERT INTO identity (id, name, type_id, is_admin, is_default_admin) VALUES
      ('a', 'Default Admin', 'Default', false, true), ('b', 'b', 'Default', false, false)`);
    await pool.query(`INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address) VALUES
      ('s', 's', 'a', 'x', '::1'), ('t', 't', 'b', 'x', '::1')`);
    await migrate(db(), migrations);
    const { rows } = await pool.query("SELECT id, is_admin FROM identity ORDER BY id");
    expect(rows).toEqual([
      { id: "a", is_admin: true },
      { id: "b", is_admin: false },
    ]);
    expect((await pool.query("SELECT id FROM api_session")).rows).toEqual([{ id: "t" }]);
  });
});

it("a backup begins after a schema change that is made, and has what it made", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sallyport-backup-"));
  const holder = await stores[0]!.pool.connect();
  try {
    await holder.query("SELECT pg_advisory_lock($1, $2)", [...SCHEMA_LOCK]);
    const file = join(folder, "one");
    const backup = writeBackup({ connection: database.connection, file });
    await lockWaits(stores[0]!.db, 1);
    await holder.query("CREATE TABLE late (n int); INSERT INTO late VALUES (1)");
    // Not with the statements before: they are one transaction, which is committed after the last of them.
    await holder.query("SELECT pg_advisory_unlock_all()");
    await backup;
    expect((await verifyBackup(file)).tables.map(({ name }) => name)).toContain("late");
  } finally {
    holder.release();
    await rm(folder, { recursive: true });
  }
});
