import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { UndeclaredChangeError } from "../driver/connection.ts";
import { Statement } from "../driver/statement.ts";
import { type TestStore, testStore } from "../testing/test-store.ts";
import { appendChange } from "./change-log.ts";
import type { ChangeRow } from "./change-log-reads.ts";
import { LoggedStatement, loggedWrite } from "./logged-write.ts";

let test: TestStore;
let rows: ChangeRow[] = [];

beforeAll(async () => {
  // A store that is the only writer reads the log only after a write that was declared.
  test = await testStore({ hold: true });
  test.store.changes.subscribe({
    name: "test",
    onChanges: (changed) => void rows.push(...changed),
    onReset: () => undefined,
  });
}, 60_000);
afterAll(() => test.drop());
beforeEach(async () => {
  await test.store.changes.caughtUp();
  rows = [];
});

const made = (id: string) => sql`WITH made AS (
  INSERT INTO service (id, name, attrs, encryption_required) VALUES (${id}, ${id}, '{a}', false) RETURNING id, attrs)`;

async function seen(): Promise<string[]> {
  await test.store.changes.caughtUp();
  return rows.map(({ kind, key, op, before }) => `${kind} ${key} ${op} ${JSON.stringify(before)}`);
}

describe("a logged write", () => {
  it("appends the rows that it declares, in the same statement, and answers what it is asked for", async () => {
    const answer = sql<{ id: string }>`SELECT id FROM made`;
    const written = await loggedWrite(test.store.db, made("one"), {
      changes: [
        { kind: "service", op: "create", of: "made" },
        { kind: "config", op: "update", of: "made", key: "id || '!'", before: { attrs: "attrs" } },
      ],
      answer,
    });
    expect(written).toEqual([{ id: "one" }]);
    expect(await seen()).toEqual(["service one create null", 'config one! update {"attrs":["a"]}']);
  });

  it("logs a key of several rows once, if asked to", async () => {
    const rename = new LoggedStatement<never>("WITH known AS (SELECT $1::text AS id FROM generate_series(1, 3))", {
      changes: [{ kind: "service", op: "update", of: "known", isDistinct: true }],
    });
    await rename.rows(test.store.db, ["many"]);
    expect(await seen()).toEqual(["service many update null"]);
  });

  it("is told to readers when its transaction has ended, not before", async () => {
    await test.store.transaction(async (trx) => {
      await loggedWrite(trx, made("two"), { changes: [{ kind: "service", op: "create", of: "made" }] });
      expect(await seen()).toEqual([]);
    });
    expect(await seen()).toEqual(["service two create null"]);
  });
});

describe("an append that is not declared", () => {
  const texts = [
    "INSERT INTO change_log (kind, key, op) VALUES ('service', 'x', 'create')",
    `with gone as (delete from service returning id) insert  into "change_log" (kind, key, op) select 'service', id, 'delete' from gone`,
  ];

  it.each(texts)("is refused before it reaches the server: %s", async (text) => {
    await expect(sql.raw(text).execute(test.store.db)).rejects.toThrow(UndeclaredChangeError);
    await expect(new Statement<never>(text).rows(test.store.db, [])).rejects.toThrow(/without declaring it/);
    const build = test.store.db
      .insertInto("change_log")
      .values({ kind: "service", key: "x", op: "create", before: null });
    await expect(build.execute()).rejects.toThrow(UndeclaredChangeError);
    expect(await seen()).toEqual([]);
  });

  it("is refused also after another statement has declared the same text", async () => {
    const text = "INSERT INTO change_log (kind, key, op) SELECT 'service', 'declared', 'create'";
    await new Statement<never>(text, { appendsChanges: true }).rows(test.store.db, []);
    await expect(new Statement<never>(text).rows(test.store.db, [])).rejects.toThrow(UndeclaredChangeError);
    expect(await seen()).toEqual(["service declared create null"]);
  });

  it("undoes its transaction", async () => {
    const work = test.store.transaction(async (trx) => {
      await loggedWrite(trx, made("three"), { changes: [{ kind: "service", op: "create", of: "made" }] });
      await sql.raw(texts[0] ?? "").execute(trx);
    });
    await expect(work).rejects.toThrow(UndeclaredChangeError);
    const { rows: found } = await sql`SELECT 1 FROM service WHERE id = 'three'`.execute(test.store.db);
    expect(found).toEqual([]);
  });

  it("can not be a logged write without changes", () => {
    // @ts-expect-error: at least one change
    const withoutChanges = () => new LoggedStatement<never>("WITH x AS (SELECT 1)", { changes: [] });
    expect(withoutChanges).toBeTypeOf("function");
  });
});

describe("pipelining", () => {
  it("lets the statement after it, or the commit, fail with its error", async () => {
    const { store } = test;
    const clash = { kind: "service", op: "create", of: "made" } as const;
    await loggedWrite(store.db, made("there"), { changes: [clash] });
    const next = store.transaction(async (trx) => {
      await loggedWrite(trx, made("there"), { changes: [clash], isPipelined: true });
      await sql`SELECT 1`.execute(trx);
    });
    await expect(next).rejects.toThrow(/duplicate key/);
    const commit = store.transaction((trx) => loggedWrite(trx, made("there"), { changes: [clash], isPipelined: true }));
    await expect(commit).rejects.toThrow(/duplicate key/);
  });

  it("is a matter of the option, not of the text", async () => {
    const { store } = test;
    const awaited = store.transaction(async (trx) => {
      const work = sql`/* unanswered */ INSERT INTO service (id, name, encryption_required) VALUES ('there', 'there', false)`;
      await expect(work.execute(trx)).rejects.toThrow(/duplicate key/);
      throw new Error("reached");
    });
    await expect(awaited).rejects.toThrow("reached");
  });

  it("does not apply outside of a transaction: an append that fails is thrown at once", async () => {
    await expect(appendChange(test.store.db, { kind: "service", key: "x", op: "other" as never })).rejects.toThrow(
      /check constraint/,
    );
  });
});
