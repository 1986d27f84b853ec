/** Pages of collections: of tables, of types that the program defines, and of role attributes. */
import { type ListQuery, type ListResult, NO_LIMIT, notFound } from "@sallyport/api";
import { type SelectQueryBuilder, sql } from "kysely";
import type { Db } from "../../model/context.ts";
import { WorkLimit } from "../../model/work-limit.ts";
import {
  type EntityFields,
  fetchPage,
  field,
  fieldNames,
  filterSql,
  roleFilterSql,
} from "../../store/filter/filter-sql.ts";
import type { ApiDependencies } from "../dependencies.ts";
import type { EntityRow } from "../render/base.ts";

/** A whole collection is read and written at once: few at a time, to leave memory and processor time to other requests. */
const WHOLE_COLLECTIONS = new WorkLimit({ atATime: 2, inLine: 30, retryAfterSeconds: 2 });

/**
 * One page of a collection: filtered, sorted and cut by the database, then rendered.
 * @param table the query's main table
 * @param count gives the number of rows without a filter, where that is known without counting them
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

/** The answer with one record, from the function that renders lists of them. */
export async function detail<R, T>(
  deps: ApiDependencies,
  render: (deps: ApiDependencies, rows: readonly R[]) => Promise<T[]>,
  row: R,
): Promise<{ data: T }> {
  return { data: only(await render(deps, [row])) };
}

/** The condition of a `roleFilter`; undefined when there is none. */
export function roleCondition(
  table: keyof typeof USED_ATTRIBUTES,
  {
    roleFilter,
    roleSemantic,
  }: { roleFilter?: readonly string[] | undefined; roleSemantic?: "AllOf" | "AnyOf" | undefined },
) {
  return roleFilterSql({ id: `${table}.id`, attributes: `${table}.attrs` }, roleFilter, roleSemantic);
}

type FixedType = EntityRow & { readonly name: string };

const TYPE_FIELDS: EntityFields = {
  id: field.string("fixed_type.id"),
  name: field.string("fixed_type.name"),
  createdAt: field.datetime("fixed_type.created_at"),
  updatedAt: field.datetime("fixed_type.updated_at"),
};

/** Types that the program defines, listed and filtered like a collection. Their times are those of the network's start. */
export function fixedTypes<T>(
  { ctx }: ApiDependencies,
  kind: string,
  types: readonly { readonly id: string; readonly name: string }[],
  render: (row: FixedType) => T,
) {
  const ids = types.map(({ id }) => id);
  const names = types.map(({ name }) => name);
  const all = () =>
    ctx.store.db
      .selectFrom(
        sql<FixedType>`(SELECT t.id COLLATE "C" AS id, t.name COLLATE "C" AS name, '{}'::jsonb AS tags,
          p.created_at, p.created_at AS updated_at
          FROM unnest(${ids}::text[], ${names}::text[]) AS t (id, name)
          CROSS JOIN auth_policy p WHERE p.id = 'default')`.as("fixed_type"),
      )
      .selectAll();
  return {
    list: (list: ListQuery) => listed(all(), "fixed_type", TYPE_FIELDS, list, (rows) => rows.map(render)),
    /** @throws ApiError 404 */
    detail: async (id: string) => {
      const row = await all().where("fixed_type.id", "=", id).executeTakeFirst();
      if (row === undefined) throw notFound(kind, id);
      return { data: render(row) };
    },
  };
}

/** Distinct attributes by collection. Those of identities, of which there may be very many, are walked by their index. */
export const USED_ATTRIBUTES = {
  identity: sql`WITH RECURSIVE walk AS (
      (SELECT attr FROM identity_attr ORDER BY attr LIMIT 1)
      UNION ALL
      SELECT (SELECT a.attr FROM identity_attr a WHERE a.attr > walk.attr ORDER BY a.attr LIMIT 1)
      FROM walk WHERE walk.attr IS NOT NULL)
    SELECT attr FROM walk WHERE attr IS NOT NULL`,
  service: sql`SELECT DISTINCT a.attr FROM service CROSS JOIN LATERAL unnest(service.attrs) AS a (attr)`,
  posture_check: sql`SELECT DISTINCT a.attr FROM posture_check CROSS JOIN LATERAL unnest(posture_check.attrs) AS a (attr)`,
  router: sql`SELECT DISTINCT a.attr FROM router CROSS JOIN LATERAL unnest(router.attrs) AS a (attr)`,
} as const;

/** The role attributes in use in a collection; the filter's only symbol is `id`, the attribute's text. */
export async function listRoleAttributes(
  db: Db,
  collection: keyof typeof USED_ATTRIBUTES,
  list: ListQuery,
): Promise<ListResult<string>> {
  const condition = list.filter === undefined ? sql`true` : filterSql({ id: field.string("used.attr") }, list.filter);
  const { rows } = await sql<{ attr: string }>`
    SELECT used.attr FROM (${USED_ATTRIBUTES[collection]}) AS used (attr) WHERE ${condition} ORDER BY used.attr`.execute(
    db,
  );
  const end = list.limit === NO_LIMIT ? undefined : list.offset + list.limit;
  const data = rows.slice(list.offset, end).map((row) => row.attr);
  return { data, totalCount: rows.length, filterableFields: ["id"] };
}
