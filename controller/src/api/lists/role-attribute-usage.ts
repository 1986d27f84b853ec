/** Role attributes with what uses them: the entities that have one, and the policies that select by it. */
import type { ListQuery, ListResult, roleAttributeUsage } from "@sallyport/api";
import { type RawBuilder, sql } from "kysely";
import type { z } from "zod";
import type { Db } from "../../model/context.ts";
import { field } from "../../store/filter/filter-sql.ts";
import { listed, USED_ATTRIBUTES } from "./listing.ts";

/** Ids that are named for one attribute and source; the count is the whole one. */
export const MAX_USAGE_IDS = 1_000;

type Collection = keyof typeof USED_ATTRIBUTES;
type Usage = z.input<typeof roleAttributeUsage>["usage"];

/** Where attributes of a collection occur: tables that have a row of `attr` and `id` for each of them, below a name. */
type Sources = Readonly<Record<string, RawBuilder<unknown>>>;

/** Selectors of the policies of a table, on one side. */
function selectors(table: string, side: string): RawBuilder<unknown> {
  const attrs = sql.ref(`p.${side}_attrs`);
  return sql`SELECT a.attr, p.id FROM ${sql.table(table)} p CROSS JOIN LATERAL unnest(${attrs}) AS a (attr)`;
}

function attributesOf(table: string): RawBuilder<unknown> {
  return sql`SELECT a.attr, e.id FROM ${sql.table(table)} e CROSS JOIN LATERAL unnest(e.attrs) AS a (attr)`;
}

const SOURCES: Readonly<Record<Collection, Sources>> = {
  identity: {
    identities: sql`SELECT attr, identity_id AS id FROM identity_attr`,
    servicePolicies: selectors("service_policy", "identity"),
    edgeRouterPolicies: selectors("edge_router_policy", "identity"),
  },
  router: {
    edgeRouters: attributesOf("router"),
    edgeRouterPolicies: selectors("edge_router_policy", "router"),
    serviceEdgeRouterPolicies: selectors("service_edge_router_policy", "router"),
  },
  service: {
    services: attributesOf("service"),
    servicePolicies: selectors("service_policy", "service"),
    serviceEdgeRouterPolicies: selectors("service_edge_router_policy", "service"),
  },
  posture_check: {
    postureChecks: attributesOf("posture_check"),
    servicePolicies: selectors("service_policy", "posture_check"),
  },
};

/** One page of the attributes of a collection, by their text. The only symbol of filter and sort is `id`: the attribute. */
export async function listAttributeUsage(
  db: Db,
  collection: Collection,
  list: ListQuery,
  withIds: boolean,
): Promise<ListResult<z.input<typeof roleAttributeUsage>>> {
  const sources = SOURCES[collection];
  const [, ...policies] = Object.values(sources);
  const attributes = sql.join(
    [USED_ATTRIBUTES[collection], ...policies.map((rows) => sql`SELECT s.attr FROM (${rows}) s`)].map(
      (rows) => sql`(${rows})`,
    ),
    sql` UNION `,
  );
  const used = db
    .selectFrom(sql<{ id: string }>`(SELECT u.attr AS id FROM (${attributes}) u)`.as("used"))
    .select("used.id");
  return listed(used, "used", { id: field.string("used.id", { unique: true }) }, list, async (rows) => {
    const names = rows.map(({ id }) => id);
    const usage = await usageOf(db, sources, names, withIds);
    return names.map((roleAttribute) => ({ roleAttribute, usage: usage(roleAttribute) }));
  });
}

async function usageOf(
  db: Db,
  sources: Sources,
  attributes: readonly string[],
  withIds: boolean,
): Promise<(attribute: string) => Usage> {
  const ids = withIds ? sql`(array_agg(s.id ORDER BY s.id))[1:${sql.lit(MAX_USAGE_IDS)}]` : sql`NULL::text[]`;
  const counts = Object.entries(sources).map(
    ([source, rows]) => sql`SELECT s.attr, ${source}::text AS source, count(*) AS count, ${ids} AS ids
      FROM (${rows}) s WHERE s.attr = ANY (${attributes}::text[]) GROUP BY s.attr`,
  );
  const { rows } = await sql<{ attr: string; source: string; count: string; ids: string[] | null }>`
    ${sql.join(counts, sql` UNION ALL `)}`.execute(db);
  const found = new Map(rows.map(({ attr, source, count, ids: users }) => [`${source} ${attr}`, { count, users }]));
  return (attribute) =>
    Object.fromEntries(
      Object.keys(sources).map((source) => {
        const { count = 0, users = [] } = found.get(`${source} ${attribute}`) ?? {};
        return [source, { count: Number(count), ...(withIds ? { ids: users ?? [] } : {}) }];
      }),
    );
}
