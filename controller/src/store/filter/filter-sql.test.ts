import { type ListQuery, NO_LIMIT, parseListQuery } from "@sallyport/api";
import { type Kysely, sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestStore, testStore } from "../testing/test-store.ts";
import { type EntityFields, fetchPage, field, fieldNames, roleFilterSql } from "./filter-sql.ts";

interface Tables {
  thing: {
    id: string;
    name: string;
    note: string | null;
    size: number;
    on: boolean;
    made: Date;
    attrs: string[];
    tags: object;
  };
  part: { id: string; thing_id: string; name: string; weight: number };
}

const partFields: EntityFields = {
  id: field.string("part.id"),
  name: field.string("part.name"),
  weight: field.number("part.weight"),
};
const fields: EntityFields = {
  id: field.string("thing.id"),
  name: field.string("thing.name"),
  note: field.string("thing.note", { nullable: true }),
  size: field.number("thing.size"),
  sizeName: field.word(sql`(ARRAY['one', 'two', 'three', 'four'])[thing.size]`, { one: 1, two: 2, three: 3, four: 4 }),
  isOn: field.boolean("thing.on"),
  createdAt: field.datetime("thing.made"),
  roleAttributes: field.array("thing.attrs"),
  tags: field.tags("thing.tags"),
  parts: field.rows(sql`select part.id as value from part where part.thing_id = thing.id`, {
    from: sql`part`,
    where: sql`part.thing_id = thing.id`,
    fields: partFields,
    id: sql`part.id`,
  }),
  "parts.name": field.rows(sql`select part.name as value from part where part.thing_id = thing.id`),
};

let store: TestStore;
let db: Kysely<Tables>;
beforeAll(async () => {
  store = await testStore();
  db = store.store.db as unknown as Kysely<Tables>;
  await sql`create table thing (id text collate "C" primary key, name text collate "C" not null, note text collate "C",
    size int not null, "on" boolean not null, made timestamptz not null, attrs text[] not null, tags jsonb not null)`.execute(
    db,
  );
  await sql`create table part (id text primary key, thing_id text not null, name text not null, weight int not null)`.execute(
    db,
  );
  const row = (
    id: string,
    name: string,
    note: string | null,
    size: number,
    on: boolean,
    attrs: string[],
    tags: object,
  ) =>
    sql`insert into thing values (${id}, ${name}, ${note}, ${size}, ${on}, ${`2026-01-0${size}T00:00:00Z`}::timestamptz, ${attrs}::text[], ${JSON.stringify(tags)}::jsonb)`.execute(
      db,
    );
  await row("a", "Alpha_1", null, 1, true, ["x", "y"], { k: "v", n: 5, on: true });
  await row("b", "beta%20", "note", 2, false, ["y"], { k: "w", n: "5" });
  await row("c", "GAMMA \\ Ü", "Note", 3, true, [], { k: null });
  await row("d", "delta'; drop table thing; --", null, 4, false, ["x-long"], {});
  await sql`insert into part values ('p1', 'a', 'bolt', 5), ('p2', 'a', 'nut', 1), ('p3', 'b', 'nut', 2)`.execute(db);
});
afterAll(() => store.drop());

async function ids(filter: string, more: Partial<ListQuery> = {}): Promise<string> {
  const list = { ...parseListQuery({ filter, limit: "-1" }), ...more };
  const { rows } = await fetchPage(db.selectFrom("thing").select("id"), { fields, list, id: "thing.id" });
  return rows.map(({ id }) => id).join("");
}

describe("conditions", () => {
  test.each([
    ["true", "abcd"],
    ["false", ""],
    ['name = "Alpha_1"', "a"],
    ['name != "Alpha_1"', "bcd"],
    ['name < "a"', "ac"],
    ['name >= "beta%20"', "bd"],
    ["isOn", "ac"],
    ["isOn = false", "bd"],
    ["not isOn", "bd"],
    ["size = 2", "b"],
    ["size = 2.0", "b"],
    ["size > 1.5 and size < 4", "bc"],
    ["size between 2 and 4", "bc"],
    ["size not between 2 and 4", "ad"],
    ["size in [1, 4]", "ad"],
    ["size not in [1, 4]", "bc"],
    ["createdAt >= datetime(2026-01-03T00:00:00Z)", "cd"],
    ["createdAt between datetime(2026-01-01T00:00:00Z) and datetime(2026-01-03T01:00:00+01:00)", "ab"],
    // contains: bytewise, and no character of the text is special
    ['name contains "_1"', "a"],
    ['name contains "a_1"', "a"],
    ['name contains "%20"', "b"],
    ['name contains "a%2"', "b"],
    ['name contains "A \\\\"', "c"],
    ['name contains "drop table"', "d"],
    ['name contains "ALPHA"', ""],
    ["name contains 20", "b"],
    ['name icontains "ALPHA"', "a"],
    ['name icontains "ta"', "bd"],
    ['name icontains "\\\\ ü"', "c"],
    ['name not contains "ta"', "ac"],
    // a missing value fails every comparison but != and not contains
    ['note = "note"', "b"],
    ['note != "note"', "acd"],
    ['note < "z"', "bc"],
    ['note in ["note", "x"]', "b"],
    ['note not in ["note", "x"]', "acd"],
    ['not note != "note"', "b"],
    ["not note = null", "bc"],
    ["not not isOn", "ac"],
    ["not note contains 5", "abcd"],
    ["not size not in [1]", "a"],
    // a word that is a number, too
    ['sizeName = "two"', "b"],
    ['sizeName != "two"', "acd"],
    ["sizeName = 2", "b"],
    ["sizeName > 2", "cd"],
    ["sizeName between 2 and 4", "bc"],
    ['sizeName contains "o"', "abd"],
    ['sizeName contains "2"', "b"],
    ['sizeName in ["one", "four"]', "ad"],
    ["sizeName not in [1, 2]", "cd"],
    ['sizeName in ["1", "2"]', "ab"],
    ['sizeName = "five"', ""],
    ["true sort by sizeName desc", "dcba"],
    // a number beside text is its decimal form
    ["name = 5", ""],
    ["id < 5.0", ""],
    ["name in [5]", ""],
    ["size contains 1", "a"],
    ['size contains "1"', "a"],
    ['size not contains "1"', "bcd"],
    ['size in ["1", "4"]', "ad"],
    ['note contains "ote"', "bc"],
    ['note not contains "nopq"', "abcd"],
    ['note icontains "NOTE"', "bc"],
    ["note = null", "ad"],
    ["note != null", "bc"],
    ['not (note = "note")', "acd"],
    ['not note = "note" and isOn', "abcd"],
    // precedence as the grammar has it
    ["isOn and size = 3 or size = 1", "ac"],
    ["isOn and size = 2 or size = 4", ""],
    // sets
    ['anyOf(roleAttributes) = "y"', "ab"],
    ['anyOf(roleAttributes) != "y"', "ad"],
    ['anyOf(roleAttributes) in ["x", "x-long"]', "ad"],
    ['anyOf(roleAttributes) not in ["y"]', "cd"],
    ['anyOf(roleAttributes) contains "long"', "d"],
    ['anyOf(roleAttributes) not contains "x"', "ab"],
    ['allOf(roleAttributes) = "y"', "bc"],
    ['allOf(roleAttributes) != "y"', "cd"],
    ['allOf(roleAttributes) not in ["y", "x"]', "d"],
    ['allOf(roleAttributes) not contains "x"', "bc"],
    ["allOf(roleAttributes) != null", "abcd"],
    ['allOf(roleAttributes) icontains "X"', "cd"],
    ["isEmpty(roleAttributes)", "c"],
    ["not isEmpty(roleAttributes)", "abd"],
    ["count(roleAttributes) = 2", "a"],
    ['anyOf(parts.name) = "nut"', "ab"],
    ['allOf(parts.name) = "nut"', "bcd"],
    ["isEmpty(parts)", "cd"],
    ["count(parts) >= 1", "ab"],
    ["count(from parts where weight > 1) = 1", "ab"],
    ['count(from parts where name = "nut" limit 0) = 0', "abcd"],
    ["isEmpty(from parts where weight = 2)", "acd"],
    // tags take the type of the other side
    ['tags.k = "v"', "a"],
    ['tags.k != "v"', "bcd"],
    ["tags.k = null", "cd"],
    ["tags.k != null", "ab"],
    ["tags.n = 5", "a"],
    ['tags.n = "5"', "b"],
    ["tags.n > 4", "a"],
    ["tags.n between 5 and 6", "a"],
    ['tags.k > "v"', "b"],
    ['tags.k in ["w", "x"]', "b"],
    ['tags.k contains "w"', "b"],
    ["tags.on", "a"],
    ["tags.on = true", "a"],
    ["tags.k < datetime(2026-01-01T00:00:00Z)", ""],
  ])("%s", async (filter, expected) => {
    expect(await ids(filter)).toBe(expected);
  });
});

describe("refusals", () => {
  test.each([
    ["secret = 1", "unknown symbol 'secret'"],
    ["constructor = 1", "unknown symbol 'constructor'"],
    ['roleAttributes = "x"', "symbol 'roleAttributes' is a set symbol but is used in non-set function context"],
    ['anyOf(name) = "x"', "symbol 'name' is not a set symbol but is used in set function context"],
    ["anyOf(nothing) = 1", "unknown symbol 'nothing'"],
    ["tags = 1", "symbol 'tags' is a map: name one of its keys, as in tags.key"],
    ['size = "1"', "operation = is not supported with operands types number, string"],
    ['isOn contains "1"', "operation contains is not supported with operands types boolean, string"],
    ["name", "operation is is not supported with operands types string, boolean"],
    ["name between 1 and 2", "operation between is not supported with operands types string, number"],
    ["name = true", "operation = is not supported with operands types string, boolean"],
    ["createdAt between 1 and 2", "operation between is not supported with operands types datetime, number"],
    ['count(parts) = "1"', "operation = is not supported with operands types number, string"],
    ["isEmpty(from roleAttributes where true)", "symbol 'roleAttributes' cannot be queried with from … where …"],
    ["true sort by roleAttributes", "symbol 'roleAttributes' cannot be sorted by"],
    ["true sort by nothing", "unknown symbol 'nothing'"],
  ])("%s", async (filter, message) => {
    await expect(ids(filter)).rejects.toMatchObject({ status: 400, code: "INVALID_FILTER", cause: { message } });
  });

  test("a bad sort parameter has a code of its own", async () => {
    const list = parseListQuery({ sort: "nothing" });
    await expect(ids("true", { sort: list.sort, sortIn: list.sortIn })).rejects.toMatchObject({
      code: "INVALID_SORT_IDENTIFIER",
    });
  });
});

describe("pages", () => {
  const page = (list: Partial<ListQuery>) =>
    fetchPage(db.selectFrom("thing").select("id"), {
      fields,
      list: { ...parseListQuery({ limit: "-1" }), ...list },
      id: "thing.id",
    });
  const of = (rows: { id: string }[]) => rows.map(({ id }) => id).join("");

  test.each<[Partial<ListQuery>, string, number]>([
    [{}, "abcd", 4],
    [{ limit: 2 }, "ab", 4],
    [{ limit: 2, offset: 2 }, "cd", 4],
    [{ limit: 2, offset: 3 }, "d", 4],
    [{ limit: 2, offset: 9 }, "", 4],
    [{ limit: NO_LIMIT, offset: 9 }, "", 4],
    [{ limit: 4 }, "abcd", 4],
  ])("%j is %s of %i", async (list, expected, total) => {
    const { rows, totalCount } = await page(list);
    expect([of(rows), totalCount]).toEqual([expected, total]);
  });

  test("order: bytewise, nulls first, ties by id", async () => {
    expect(await ids("true sort by name")).toBe("acbd");
    expect(await ids("true sort by note")).toBe("adcb");
    expect(await ids("true sort by note desc")).toBe("bcad");
    expect(await ids("true sort by isOn desc, size desc")).toBe("cadb");
    expect(await ids("sort by createdAt desc skip 1 limit 2")).toBe("cb");
  });

  test("joins and own conditions stay", async () => {
    const query = db
      .selectFrom("thing")
      .innerJoin("part", "part.thing_id", "thing.id")
      .where("part.name", "=", "nut")
      .select(["thing.id", "part.weight"]);
    const list = { ...parseListQuery({ filter: 'id != "x"', limit: "1" }) };
    expect(await fetchPage(query, { fields, list, id: "thing.id" })).toEqual({
      rows: [{ id: "a", weight: 1 }],
      totalCount: 2,
    });
  });

  test("a filter as long and as deep as the grammar allows runs", async () => {
    expect(await ids(`${"isOn and ".repeat(900)}true`)).toBe("ac");
    expect(await ids(`${"(".repeat(450)}isOn${")".repeat(450)}`)).toBe("ac");
  });
});

test.each([
  [undefined, "AllOf", "abcd"],
  [[], "AllOf", "abcd"],
  [["#x"], "AllOf", "a"],
  [["#x", "#y"], "AllOf", "a"],
  [["#x", "#y"], "AnyOf", "ab"],
  [["@c"], "AllOf", "c"],
  [["@c", "#x", "#y"], "AllOf", "ac"],
  [["#all"], "AllOf", "abcd"],
] as const)("roleFilter %j %s selects %s", async (roles, semantic, expected) => {
  const condition = roleFilterSql({ id: "thing.id", attributes: "thing.attrs" }, roles, semantic);
  let query = db.selectFrom("thing").select("id").orderBy("id");
  if (condition !== undefined) query = query.where(condition);
  expect((await query.execute()).map(({ id }) => id).join("")).toBe(expected);
});

test("a role that is neither attribute nor id is refused; the names of the fields are what is announced", () => {
  expect(() => roleFilterSql({ id: "thing.id", attributes: "thing.attrs" }, ["x"])).toThrow("invalid document");
  expect(fieldNames(fields)).toContain("roleAttributes");
});
