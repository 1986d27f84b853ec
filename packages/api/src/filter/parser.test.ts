import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ApiFilterError, type FilterNode, type FilterOperand, type FilterValue, type ParsedFilter } from "./ast.ts";
import { parseFilter, parseSort } from "./parser.ts";

/** A tree as text with every grouping written out. */
function show(node: FilterNode | undefined): string {
  if (node === undefined) return "-";
  switch (node.kind) {
    case "constant":
      return String(node.value);
    case "flag":
      return node.name;
    case "not":
      return `not ${show(node.node)}`;
    case "and":
    case "or":
      return `(${show(node.left)} ${node.kind} ${show(node.right)})`;
    case "compare":
      return `${operand(node.left)}${node.operator}${value(node.value)}`;
    case "contains":
      return `${operand(node.left)} ${node.negated ? "not " : ""}${node.ignoreCase ? "i" : ""}contains ${node.value}`;
    case "in":
      return `${operand(node.left)} ${node.negated ? "not " : ""}in [${node.values.map(value).join()}]`;
    case "between":
      return `${operand(node.left)} ${node.negated ? "not " : ""}between ${value(node.low)}..${value(node.high)}`;
    case "isEmpty":
      return `isEmpty(${node.set}${from(node.where)})`;
  }
}
function operand(left: FilterOperand): string {
  if (left.kind === "symbol") return left.name;
  return `${left.kind}(${left.set}${left.kind === "count" ? from(left.where) : ""})`;
}
function from(where: ParsedFilter | undefined): string {
  return where === undefined ? "" : ` where ${show(where.where)}`;
}
function value(each: FilterValue): string {
  return each.type === "datetime" ? new Date(each.value).toISOString() : String(each.value);
}

describe("conditions", () => {
  test.each([
    ["a and b or c", "(a and (b or c))"],
    ["a or b and c", "(a or (b and c))"],
    ["a=1 and b=2 or c=3 and d=4", "(a=1 and (b=2 or (c=3 and d=4)))"],
    ["a and b and c or d", "(a and (b and (c or d)))"],
    ["not a and b", "not (a and b)"],
    ["a and not b or c", "(a and not (b or c))"],
    ["not (a) or b", "not (a or b)"],
    ["a between 1 and 5 and b", "(a between 1..5 and b)"],
    ["(a or b) and c", "((a or b) and c)"],
    ['name="x"', "name=x"],
    ['id = "X" or name="X"', "(id=X or name=X)"],
    ['name contains "db"', "name contains db"],
    ["name contains 5", "name contains 5"],
    ['name NOT icontains "Db"', "name not icontains Db"],
    ['a in ["x" , "y"]', "a in [x,y]"],
    ['a not in ["x"]', "a not in [x]"],
    ["a not between -1.5e3 and 2", "a not between -1500..2"],
    ["createdAt > datetime( 2020-01-01t00:00:00+02:00 )", "createdAt>2019-12-31T22:00:00.000Z"],
    ['anyOf(roleAttributes) = "a"', "anyOf(roleAttributes)=a"],
    ['allOf( services.name ) != "a"', "allOf(services.name)!=a"],
    ["count(configs) >= 2", "count(configs)>=2"],
    ['count(from services where name="a") > 0', "count(services where name=a)>0"],
    ["isEmpty(roleAttributes) and isVerified", "(isEmpty(roleAttributes) and isVerified)"],
    ["isEmpty(from services where true limit 1)", "isEmpty(services where true)"],
    ["tags.my-key_x = null", "tags.my-key_x=null"],
    ["'tags.key' = false", "tags.key=false"],
    ['name = "a\\"\\\\\\n"', 'name=a"\\\n'],
    ["TRUE", "true"],
    ["android", "android"],
    ["notes and order", "(notes and order)"],
  ])("%s", (text, tree) => {
    expect(show(parseFilter(text).where)).toBe(tree);
  });
});

describe("trailers", () => {
  test.each<[string, Partial<ParsedFilter>]>([
    ["true skip 4 limit 2", { skip: 4, limit: 2 }],
    ["limit none", { where: undefined, limit: "none" }],
    ["limit -1", { limit: -1 }],
    ["sort by name limit none", { sort: [{ name: "name", descending: false }], limit: "none" }],
    [
      'name contains "db" sort by name desc , createdAt ASC,id skip 5 limit 2',
      {
        sort: [
          { name: "name", descending: true },
          { name: "createdAt", descending: false },
          { name: "id", descending: false },
        ],
        skip: 5,
        limit: 2,
      },
    ],
  ])("%s", (text, expected) => {
    expect(parseFilter(text)).toMatchObject(expected);
  });

  test("a sort on its own", () => {
    expect(parseSort(" name asc, tags.x desc ")).toEqual([
      { name: "name", descending: false },
      { name: "tags.x", descending: true },
    ]);
    expect(() => parseSort("a,b,c,d,e,f")).toThrow("at most 5");
    expect(() => parseSort("name upwards")).toThrow(ApiFilterError);
  });
});

describe("syntax errors", () => {
  test.each([
    ['a not  in ["x"]', 6],
    ["a in []", 6],
    ["a2=1", 1],
    ["a='x'", 2],
    ['a contains"x"', 10],
    ['a="x"and b', 5],
    ["a = +1", 4],
    ["a = 1.", 4],
    ["x = DATETIME(2020-01-01T00:00:00Z)", 4],
    ['name="x" limit 5 sort by name', 17],
    ["limit 5 skip 1", 8],
    ["!a", 0],
    ["count = 1", 0],
    ["limit = 1", 6],
    ["none = 1", 0],
    ["from = 1", 0],
    ["a =", 3],
    ['a = "x', 4],
    ['a = "\t"', 5],
    ['a in ["x", 1]', 11],
    ["a < null", 4],
    ["(a", 2],
    ["a and", 5],
    ["tags.key1 = 1", 8],
  ])("%s fails at %i", (text, position) => {
    const error = failure(text);
    expect(error).toBeInstanceOf(ApiFilterError);
    expect((error as ApiFilterError).position).toBe(position);
  });

  test("blanks only", () => {
    // Nothing at all is everything; the caller does not parse it. Blanks are a query without a condition.
    expect(failure("   ")).toBeInstanceOf(ApiFilterError);
  });

  test("the message names line, column and what was found", () => {
    expect(failure("a and\n  b = = 1")?.message).toBe(
      'Unexpected symbol: "=" at line: 2 column: 6. line: 2, column: 6, symbol: =',
    );
  });

  test("nesting has a bound", () => {
    expect(failure(`${"(".repeat(100_000)}a`)).toBeInstanceOf(ApiFilterError);
    expect(failure(`${"not ".repeat(100_000)}a`)).toBeInstanceOf(ApiFilterError);
    expect(failure(`${"count(from a where ".repeat(50_000)}a`)).toBeInstanceOf(ApiFilterError);
  });

  test("no text makes anything but a tree or the typed error, in time proportional to its length", () => {
    const words = fc.constantFrom(
      "a",
      "and",
      "or",
      "not",
      "(",
      ")",
      "=",
      "contains",
      '"x"',
      "1",
      "in",
      "[",
      "]",
      "sort by",
      "limit",
      "none",
      "anyOf(",
      "from",
      " ",
      "'",
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(words).map((parts) => parts.join(" ")),
        ),
        (text) => {
          const error = failure(text);
          return error === undefined || error instanceof ApiFilterError;
        },
      ),
      { numRuns: 2000 },
    );
    expect(failure('name="x" or '.repeat(20_000))).toBeInstanceOf(ApiFilterError);
  });

  test("takes 100 conditions that search texts or sets, which cost the store most, and no more", () => {
    const kinds = ['name contains "a"', 'anyOf(roleAttributes) = "a"', "count(configs) > 1", "not isEmpty(configs)"];
    const filter = (count: number) => Array.from({ length: count }, (_, i) => kinds[i % kinds.length]).join(" or ");
    expect(parseFilter(filter(100)).where?.kind).toBe("or");
    expect(() => parseFilter(filter(101))).toThrow("at most 100 conditions of a filter");
    expect(parseFilter(Array(900).fill('id = "a"').join(" or ")).where?.kind).toBe("or");
  });
});

function failure(text: string): Error | undefined {
  try {
    parseFilter(text);
    return undefined;
  } catch (error) {
    return error as Error;
  }
}
