import { silentLogger } from "@sallyport/wire";
import { type Kysely, sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStore, type Store } from "./database.ts";
import { type Migration, MigrationError, migrate } from "./migrate.ts";
import { StoreError } from "./postgres/store-error.ts";
import { urlOf } from "./testing/oldest-server.ts";
import { type TestStore, testDatabase, testStore } from "./testing/test-store.ts";

describe("a store", () => {
  let test: TestStore;
  let store: Store;
  beforeAll(async () => {
    test = await testStore();
    store = test.store;
  });
  afterAll(() => test.drop());

  it("opens a database by URL", async () => {
    const url = urlOf(test.connection);
    const other = await openStore({ url, hold: false, log: silentLogger });
    expect(await other.db.selectFrom("setting").selectAll().execute()).toEqual([]);
    await other.close();
  });

  it("outlives the loss of a connection that is in use", async () => {
    const lost = store.db.transaction().execute(async (trx) => {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(trx);
      await sql`select pg_terminate_backend(${rows[0]!.pid})`.execute(store.db);
      // Between two queries only the connection itself can say that it is gone.
      await expect
        .poll(async () => (await sql`select from pg_stat_activity where pid = ${rows[0]!.pid}`.execute(store.db)).rows)
        .toEqual([]);
      await sql`select 1`.execute(trx);
    });
    await expect(lost).rejects.toThrow();
    expect(await store.db.selectFrom("setting").selectAll().execute()).toEqual([]);
  });

  it("says which database it cannot use, and not with which password", async () => {
    const error = await openStore({ url: "postgres://me:geheim@127.0.0.1:1/net", log: silentLogger }).catch(
      (e: Error) => e,
    );
    expect(error).toBeInstanceOf(StoreError);
    expect(String(error)).toContain("cannot use the database net at 127.0.0.1:1");
    expect(String(error)).not.toContain("geheim");
    await expect(openStore({ log: silentLogger })).rejects.toThrow("exactly one of");
  });

  it("runs a transaction again when it was the one to give way in a deadlock", async () => {
    await store.db
      .insertInto("setting")
      .values(["a", "b"].map((name) => ({ name, value: "0" })))
      .execute();
    let tries = 0;
    let meet: () => void = () => undefined;
    const both = new Promise<void>((resolve) => {
      meet = resolve;
    });
    let arrived = 0;
    const inOrder = (first: string, second: string) =>
      store.transaction(async (trx) => {
        tries++;
        await sql`UPDATE setting SET value = to_jsonb((value #>> '{}')::int + 1) WHERE name = ${first}`.execute(trx);
        if (++arrived >= 2) meet();
        await both;
        await sql`UPDATE setting SET value = to_jsonb((value #>> '{}')::int + 1) WHERE name = ${second}`.execute(trx);
      });
    await Promise.all([inOrder("a", "b"), inOrder("b", "a")]);
    // The one that gave way may have to do so again.
    expect(tries).toBeGreaterThanOrEqual(3);
    const rows = await store.db.selectFrom("setting").select("value").where("name", "in", ["a", "b"]).execute();
    expect(rows.map((row) => row.value)).toEqual([2, 2]);
  });

  it("does not repeat a transaction that failed for another reason", async () => {
    let tries = 0;
    const failing = store.transaction(async (trx) => {
      tries++;
      await sql`SELECT 1 / 0`.execute(trx);
    });
    await expect(failing).rejects.toThrow("division by zero");
    expect(tries).toBe(1);
  });

  it("prepares a statement once per connection", async () => {
    const one = await openStore({ connection: test.connection, hold: false, poolSize: 2, log: silentLogger });
    await one.db.connection().execute(async (connection) => {
      for (let i = 0; i < 3; i++) await sql`SELECT ${i}::int + 4711 AS n`.execute(connection);
      const { rows } = await sql<{
        n: number;
      }>`SELECT count(*)::int AS n FROM pg_prepared_statements WHERE statement LIKE '%4711 AS n'`.execute(connection);
      expect(rows).toEqual([{ n: 1 }]);
    });
    await one.close();
  });
});

describe("migrations", () => {
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let stores: Store[];
  beforeAll(async () => {
    database = await testDatabase();
    stores = await Promise.all(
      [1, 2].map(() => openStore({ connection: database.connection, hold: false, log: silentLogger })),
    );
  });
  afterAll(async () => {
    for (const store of stores) await store.close();
    await database.drop();
  });

  const table = (id: string, statement: string): Migration => ({
    id,
    up: async (db) => void (await sql.raw(statement).execute(db)),
  });

  it("run once each, in order, however many start at the same time", async () => {
    const known = await import("./migrations/all.ts");
    const more = [
      ...known.migrations,
      table("9001_a", "CREATE TABLE extra (n int)"),
      table("9002_b", "INSERT INTO extra VALUES (1)"),
    ];
    const done = await Promise.all(stores.map((store) => migrate(store.db as unknown as Kysely<never>, more)));
    expect(done.map((ids) => ids.length).sort()).toEqual([0, 2]);
    expect((await stores[0]!.pool.query("SELECT n FROM extra")).rows).toEqual([{ n: 1 }]);
  });

  it("leave nothing half done, and refuse a database of a newer program", async () => {
    const known = await import("./migrations/all.ts");
    const db = stores[0]!.db as unknown as Kysely<never>;
    await expect(migrate(db, known.migrations)).rejects.toThrow(MigrationError);
    await expect(migrate(db, known.migrations)).rejects.toThrow(/9001_a, 9002_b.*newer version/);
    await stores[0]!.pool.query("DELETE FROM schema_migration WHERE id > '9'");
    const broken = [...known.migrations, table("9003_c", "CREATE TABLE half (n int); SELECT 1 / 0")];
    await expect(migrate(db, broken)).rejects.toThrow("division by zero");
    await expect(stores[0]!.pool.query("SELECT 1 FROM half")).rejects.toThrow("does not exist");
    await expect(migrate(db, [...known.migrations].reverse())).rejects.toThrow("in order of their ids");
  });

  it("make a default administrator that had lost the mark an administrator again, who has to log in again", async () => {
    const { migrations } = await import("./migrations/all.ts");
    const store = stores[0]!;
    const db = store.db as unknown as Kysely<never>;
    // As it was before.
    await store.pool.query("ALTER TABLE identity DROP CONSTRAINT identity_default_admin_is_admin");
    await store.pool.query("DELETE FROM schema_migration WHERE id = '0014_default_administrator'");
    await store.pool.query(`INSERT INTO auth_policy (id, name, cert_allowed, cert_allow_expired, updb_allowed, ext_jwt_allowed)
      VALUES ('default', 'Default', true, true, true, true)`);
    await store.pool.query(`INSERT INTO identity (id, name, type_id, is_admin, is_default_admin) VALUES
      ('a', 'Default Admin', 'Default', false, true), ('b', 'b', 'Default', false, false)`);
    await store.pool.query(`INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address) VALUES
      ('s', 's', 'a', 'x', '::1'), ('t', 't', 'b', 'x', '::1')`);
    await migrate(db, migrations);
    const { rows } = await store.pool.query("SELECT id, is_admin FROM identity ORDER BY id");
    expect(rows).toEqual([
      { id: "a", is_admin: true },
      { id: "b", is_admin: false },
    ]);
    expect((await store.pool.query("SELECT id FROM api_session")).rows).toEqual([{ id: "t" }]);
  });
});
