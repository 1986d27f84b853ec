import { describe, expect, test } from "vitest";
import { ApiError } from "./errors.ts";
import { NO_LIMIT, parseListQuery, type RawListQuery } from "./list-query.ts";

describe("paging", () => {
  test.each<[RawListQuery, number, number]>([
    [{}, 10, 0],
    [{ limit: "0" }, 10, 0],
    [{ limit: "-2" }, 10, 0],
    [{ limit: "501" }, 500, 0],
    [{ limit: "-1" }, NO_LIMIT, 0],
    [{ offset: "7" }, 10, 7],
    [{ offset: "-7" }, 10, 0],
    [{ offset: "100001" }, 10, 100_000],
    [{ filter: "limit none", limit: "5" }, NO_LIMIT, 0],
    [{ filter: "true limit 1000", limit: "5" }, 500, 0],
    [{ filter: "skip 2", limit: "5", offset: "9" }, 5, 2],
    [{ filter: 'name contains "db" sort by name limit 2', limit: "100", offset: "3" }, 2, 3],
  ])("%j is limit %i, offset %i", (query, limit, offset) => {
    expect(parseListQuery(query)).toMatchObject({ limit, offset });
  });

  test("the sort of the filter wins over the parameter", () => {
    expect(parseListQuery({ filter: "true sort by a", sort: "b desc" })).toMatchObject({
      sort: [{ name: "a", descending: false }],
      sortIn: "filter",
    });
    expect(parseListQuery({ filter: "true", sort: "b desc" })).toMatchObject({
      sort: [{ name: "b", descending: true }],
      sortIn: "sort",
    });
  });
});

test.each<[RawListQuery, string]>([
  [{ limit: "ten" }, "INVALID_PAGINATION"],
  [{ offset: "1e3" }, "INVALID_PAGINATION"],
  [{ filter: "a =" }, "INVALID_FILTER"],
  [{ filter: " " }, "INVALID_FILTER"],
  [{ sort: "a b c" }, "INVALID_SORT_IDENTIFIER"],
])("%j is refused as %s", (query, code) => {
  expect.assertions(2);
  try {
    parseListQuery(query);
  } catch (error) {
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 400, code });
  }
});
