import type { ListQuery, ListResult } from "@sallyport/api";
import { NO_LIMIT } from "@sallyport/api";
import type { SelectQueryBuilder } from "kysely";
import { WorkLimit } from "../../model/work-limit.ts";
import { type EntityFields, fetchPage, fieldNames } from "../../store/filter/filter-sql.ts";

/** Whole collections are read and written out in one piece: few at a time, so that the others' memory and turns stay. */
const WHOLE_COLLECTIONS = new WorkLimit({ atATime: 2, inLine: 30, retryAfterSeconds: 2 });

/**
 * One page of a collection: filtered, sorted and cut by the database, then rendered. `table` is the query's main table; `count` gives how many rows the
 * query has without a filter, where that is known without counting them.
 */
export async function listed<DB, TB extends keyof DB, O, T>(
  query: SelectQueryBuilder<DB, TB, O>,
  table: string,
  fields: EntityFields,
  list: ListQuery,
  render: (rows: O[]) => Promise<T[]> | T[],
  count?: () => Promise<number>,
): Promise<ListResult<T>> {
  const page = async () => {
    const { rows, totalCount } = await fetchPage(query, { fields, list, id: `${table}.id`, ...(count && { count }) });
    return { data: await render(rows), totalCount, filterableFields: fieldNames(fields) };
  };
  return list.limit === NO_LIMIT ? WHOLE_COLLECTIONS.run(page) : page();
}

/** The only element of a rendered list of one. */
export function only<T>(rendered: readonly T[]): T {
  const [first] = rendered;
  if (first === undefined) throw new Error("a record was rendered to nothing");
  return first;
}

/** A page of values that are held in memory and need no filter beyond what the caller applied. */
export function cut<T>(values: readonly T[], list: ListQuery): { data: T[]; totalCount: number } {
  const end = list.limit === NO_LIMIT ? undefined : list.offset + list.limit;
  return { data: values.slice(list.offset, end), totalCount: values.length };
}
