import type { ListQuery, ListResult } from "@sallyport/api";
import { sql } from "kysely";
import type { Db } from "../../model/context.ts";
import { type EntityFields, field, filterSql } from "../../store/filter/filter-sql.ts";
import { cut } from "./listing.ts";

const FIELDS: EntityFields = { id: field.string("used.attr") };

/** Distinct attributes by collection. Those of identities, of which there may be very many, are walked by their index. */
const USED = {
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
  collection: keyof typeof USED,
  list: ListQuery,
): Promise<ListResult<string>> {
  const condition = list.filter === undefined ? sql`true` : filterSql(FIELDS, list.filter);
  const { rows } = await sql<{ attr: string }>`
    SELECT used.attr FROM (${USED[collection]}) AS used (attr) WHERE ${condition} ORDER BY used.attr`.execute(db);
  return {
    ...cut(
      rows.map((row) => row.attr),
      list,
    ),
    filterableFields: ["id"],
  };
}
