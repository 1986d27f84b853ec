import { silentLogger } from "@sallyport/wire";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStore, type Store } from "./database.ts";
import { StoreError } from "./postgres/store-error.ts";
import { urlOf } from "./testing/oldest-server.ts";
import { type TestStore, testStore } from "./testing/test-store.ts";

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

  it("goes on, within and outside of transactions, when a newer program adds columns", async () => {
    const one = await openStore({ connection: test.connection, hold: false, poolSize: 1, log: silentLogger });
    const all = (db: Store["db"]) =>
      sql<{ name: string }>`SELECT * FROM setting WHERE name <> ${"x"} LIMIT 1`.execute(db);
    const write = (db: Store["db"], name: string) =>
      sql`INSERT INTO setting (name, value) VALUES (${name}, '1') RETURNING setting.*`.execute(db);
    await all(one.db);
    await write(one.db, "before");
    await one.transaction((trx) => all(trx));
    await store.pool.query("ALTER TABLE setting ADD COLUMN later integer NOT NULL DEFAULT 1");
    await one.transaction(async (trx) => {
      await write(trx, "within");
      expect((await all(trx)).rows).toHaveLength(1);
    });
    await write(one.db, "outside");
    expect((await all(one.db)).rows).toHaveLength(1);
    const { rows } = await sql`SELECT FROM setting WHERE name IN ('before', 'within', 'outside')`.execute(one.db);
    expect(rows).toHaveLength(3);
    await store.pool.query("ALTER TABLE setting DROP COLUMN later");
    await one.close();
  });
});
