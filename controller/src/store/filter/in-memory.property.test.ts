/** Filters mean the same over records in memory as in SQL. */
import { ApiError, type MemoryFields, parseListQuery, selectPage } from "@sallyport/api";
import fc from "fast-check";
import { type Kysely, sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestStore, testStore } from "../testing/test-store.ts";
import { type EntityFields, fetchPage, field } from "./filter-sql.ts";

interface Thing {
  readonly id: string;
  readonly name: string | null;
  readonly size: number | null;
  readonly on: boolean | null;
  readonly made: Date | null;
  readonly tags: Readonly<Record<string, string | number | boolean | null>>;
}

const DAY = "2026-01-02T00:00:00Z";
const THINGS: readonly Thing[] = [
  { id: "a", name: "Alpha", size: 1, on: true, made: new Date("2026-01-01T00:00:00Z"), tags: { k: "v", n: 5 } },
  { id: "B", name: "beta", size: 2.5, on: false, made: new Date(DAY), tags: { k: true, n: "5" } },
  { id: "c", name: null, size: null, on: null, made: null, tags: {} },
  { id: "ä", name: "Ünder_50%", size: -3, on: true, made: new Date("2026-02-01T00:00:00Z"), tags: { k: null, n: 5.5 } },
  { id: "\u{1f600}", name: "\uffee", size: 100, on: false, made: new Date("2025-01-01T00:00:00Z"), tags: { k: "V" } },
];

const memory: MemoryFields<Thing> = {
  id: { type: "string", read: (t) => t.id },
  name: { type: "string", read: (t) => t.name },
  size: { type: "number", read: (t) => t.size },
  isOn: { type: "boolean", read: (t) => t.on },
  madeAt: { type: "datetime", read: (t) => t.made?.getTime() ?? null },
  tags: { type: "tags", read: (t) => t.tags },
};
const columns: EntityFields = {
  id: field.string("item.id"),
  name: field.string("item.name", { nullable: true }),
  size: field.number("item.size", { nullable: true }),
  isOn: field.boolean("item.on", { nullable: true }),
  madeAt: field.datetime("item.made", { nullable: true }),
  tags: field.tags("item.tags"),
};

let store: TestStore;
let db: Kysely<{ item: Thing }>;
beforeAll(async () => {
  store = await testStore();
  db = store.store.db as unknown as Kysely<{ item: Thing }>;
  await sql`CREATE TABLE item (id text COLLATE "C" PRIMARY KEY, name text COLLATE "C", size float8, "on" boolean,
    made timestamptz, tags jsonb NOT NULL)`.execute(db);
  for (const t of THINGS) {
    await sql`INSERT INTO item VALUES (${t.id}, ${t.name}, ${t.size}, ${t.on}, ${t.made}, ${JSON.stringify(t.tags)}::jsonb)`.execute(
      db,
    );
  }
});
afterAll(() => store.drop());

const symbol = fc.constantFrom(
  "id",
  "name",
  "size",
  "isOn",
  "madeAt",
  "tags.k",
  "tags.n",
  "tags.none",
  "unknown",
  "tags",
);
const value = fc.constantFrom(
  ...['"Alpha"', '"v"', '"5"', '"B"', '""', '"\uffee"', "5", "2.5", "-3", "1", "100", "true", "false", "null"],
  ...[`datetime(${DAY})`, "datetime(2026-02-01T00:00:00Z)"],
);
const not = fc.constantFrom("", "not ");
const leaf = fc.oneof(
  fc.tuple(symbol, fc.constantFrom("=", "!=", "<", "<=", ">", ">="), value).map((parts) => parts.join(" ")),
  fc
    .tuple(
      symbol,
      not,
      fc.constantFrom("contains", "icontains"),
      fc.constantFrom('"a"', '"ünd"', '"5"', '"_50%"', '""'),
    )
    .map(([left, negated, operator, part]) => `${left} ${negated}${operator} ${part}`),
  fc.tuple(symbol, not, value, value).map(([left, negated, a, b]) => `${left} ${negated}in [${a}, ${b}]`),
  fc.tuple(symbol, not, value, value).map(([left, negated, a, b]) => `${left} ${negated}between ${a} and ${b}`),
  symbol,
  fc.constantFrom("true", "false", 'anyOf(name) = "x"', "isEmpty(size)", "count(unknown) > 1"),
);
const condition = fc.letrec<{ node: string }>((tie) => ({
  node: fc.oneof(
    { weight: 3, arbitrary: leaf },
    fc.tuple(tie("node"), fc.constantFrom("and", "or"), tie("node")).map(([a, op, b]) => `(${a}) ${op} (${b})`),
    tie("node").map((inner) => `not (${inner})`),
  ),
})).node;
const order = fc.constantFrom(
  ...["", " sort by name", " sort by size desc", " sort by isOn, madeAt desc", " sort by madeAt", " sort by tags"],
  ...[" sort by id desc skip 1 limit 2", " sort by nothing", " limit none"],
);

type Outcome = { ids: readonly string[]; totalCount: number } | { refused: string };

async function outcome(work: () => Promise<Outcome> | Outcome): Promise<Outcome> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ApiError) return { refused: error.code };
    throw error;
  }
}

test("a filter selects, orders and refuses the same in memory as in SQL", async () => {
  await fc.assert(
    fc.asyncProperty(condition, order, async (where, tail) => {
      const filter = where + tail;
      const inMemory = await outcome(() => {
        const { data, totalCount } = selectPage(THINGS, memory, parseListQuery({ filter }));
        return { ids: data.map(({ id }) => id), totalCount };
      });
      const inSql = await outcome(async () => {
        const list = parseListQuery({ filter });
        const page = await fetchPage(db.selectFrom("item").select("id"), { fields: columns, list, id: "item.id" });
        return { ids: page.rows.map(({ id }) => id), totalCount: page.totalCount };
      });
      expect(inMemory, filter).toEqual(inSql);
    }),
    { numRuns: Number(process.env.SALLYPORT_FILTER_RUNS ?? 300), seed: 20_261_122 },
  );
});
