/** `limit`, `offset`, `filter` and `sort` of every paged list (`docs/api.md`, "Lists"). */
import { apiError, fieldCause, unhandledCause } from "./errors.ts";
import { ApiFilterError, type FilterNode, type SortField } from "./filter/ast.ts";
import { parseFilter, parseSort } from "./filter/parser.ts";

export const DEFAULT_LIMIT = 10;
export const MAX_LIMIT = 500;
export const MAX_OFFSET = 100_000;
/**
 * Stands for "everything", in requests as `-1` and in filters as `limit none`. Sent back as it is: OpenZiti writes the
 * greatest 64-bit number there, which JavaScript cannot print and which rounded up overflows its Go clients.
 */
export const NO_LIMIT = Number.MAX_SAFE_INTEGER;

/** What a list request asks for. `limit` is {@link NO_LIMIT} for everything; an absent filter selects everything. */
export interface ListQuery {
  readonly filter: FilterNode | undefined;
  /** At most five; ties, and lists without a sort, are ordered by id. */
  readonly sort: readonly SortField[];
  /** Where the sort was written, which decides the error code of a bad one. */
  readonly sortIn: "filter" | "sort";
  readonly limit: number;
  readonly offset: number;
}

export interface RawListQuery {
  readonly limit?: string | undefined;
  readonly offset?: string | undefined;
  readonly filter?: string | undefined;
  readonly sort?: string | undefined;
}

/**
 * Reads the four parameters; `defaultLimit` counts when the request gives none. `skip`, `limit` and `sort by` inside the filter win over the parameters.
 * @throws ApiError 400 `INVALID_PAGINATION`, `INVALID_FILTER` or `INVALID_SORT_IDENTIFIER`
 */
export function parseListQuery(query: RawListQuery, defaultLimit: number = DEFAULT_LIMIT): ListQuery {
  const limit = clampLimit(integer("limit", query.limit, defaultLimit), defaultLimit);
  const offset = clampOffset(integer("offset", query.offset, 0));
  const text = query.filter ?? "";
  if (text === "") return { filter: undefined, sort: sortOf(query.sort), sortIn: "sort", limit, offset };
  const parsed = read("INVALID_FILTER", () => parseFilter(text));
  const isSorted = parsed.sort.length > 0;
  return {
    filter: parsed.where,
    sort: isSorted ? parsed.sort : sortOf(query.sort),
    sortIn: isSorted ? "filter" : "sort",
    limit: parsed.limit === undefined ? limit : clampLimit(parsed.limit === "none" ? -1 : parsed.limit, defaultLimit),
    offset: parsed.skip === undefined ? offset : clampOffset(parsed.skip),
  };
}

function sortOf(text: string | undefined): readonly SortField[] {
  return text === undefined || text.trim() === "" ? [] : read("INVALID_SORT_IDENTIFIER", () => parseSort(text));
}

function read<T>(code: "INVALID_FILTER" | "INVALID_SORT_IDENTIFIER", parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof ApiFilterError) throw apiError(code, unhandledCause(error.message));
    throw error;
  }
}

function integer(field: string, text: string | undefined, fallback: number): number {
  if (text === undefined || text === "") return fallback;
  if (!/^[+-]?\d+$/.test(text)) {
    throw apiError("INVALID_PAGINATION", fieldCause(field, `${field} must be an integer`, text));
  }
  return Number(text);
}

function clampLimit(limit: number, defaultLimit: number): number {
  if (limit === -1) return NO_LIMIT;
  if (limit <= 0) return defaultLimit;
  return Math.min(limit, MAX_LIMIT);
}

function clampOffset(offset: number): number {
  return Math.min(Math.max(offset, 0), MAX_OFFSET);
}
