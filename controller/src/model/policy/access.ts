/**
 * Who may do what, asked of the store: the policies that select an entity, and what those select on their other side.
 * One snapshot answers each question, so a decision made with these inside a transaction is consistent with its writes.
 * Source: docs/protocol/policy.md.
 */
import type { Permission } from "@sallyport/wire";
import { type RawBuilder, type SqlBool, sql } from "kysely";
import { type Attributed, matches, type RoleSelector } from "../../policy/selector.ts";
import type { Semantic } from "../../store/schema.ts";
import type { Db } from "../context.ts";
import { type PolicyTable, refIds, selectedByAny, selects } from "./selection-sql.ts";

/** A service policy of an identity, reduced to its service side. */
export interface Grant {
  readonly type: Permission;
  readonly semantic: Semantic;
  readonly services: RoleSelector;
}

interface SideRow {
  type: Permission;
  semantic: Semantic;
  all: boolean;
  attrs: string[];
  ids: string[];
}

/** The service policies that select an identity. */
export async function grantsOf(db: Db, identity: Attributed): Promise<Grant[]> {
  const { rows } = await sql<SideRow>`
    SELECT p.type, p.semantic, p.service_all AS "all", p.service_attrs AS attrs,
      ${refIds("service_policy", "service")} AS ids
    FROM service_policy p WHERE ${selects("service_policy", "identity", identity, "p")}`.execute(db);
  return rows.map((row) => ({
    type: row.type,
    semantic: row.semantic,
    services: { all: row.all, attrs: row.attrs, ids: row.ids },
  }));
}

/** The condition "the service in `alias` is granted by one of these", with as few array operators as possible. */
export function grantedServices(grants: readonly Grant[], alias: string): RawBuilder<SqlBool> {
  return selectedByAny(
    grants.map(({ services, semantic }) => ({ selector: services, semantic })),
    alias,
  );
}

/** What grants allow on one service: `Bind` before `Dial`, as the API lists permissions. */
export function permissionsOn(grants: readonly Grant[], service: Attributed): Permission[] {
  const types = new Set(grants.filter((g) => matches(g.services, g.semantic, service)).map((g) => g.type));
  return (["Bind", "Dial"] as const).filter((type) => types.has(type));
}

/**
 * Whether a service policy of this type links the two. In a transaction the policy stays until its end. The caller has to lock identity and service to
 * keep their attributes.
 */
export async function hasGrant(trx: Db, identity: Attributed, service: Attributed, type: Permission): Promise<boolean> {
  const grants = sql<SqlBool>`p.type = ${type}
    AND ${selects("service_policy", "identity", identity, "p")} AND ${selects("service_policy", "service", service, "p")}`;
  for (;;) {
    const { rows: held } = await sql<{ id: string }>`
      SELECT p.id FROM service_policy p WHERE ${grants} LIMIT 1 FOR KEY SHARE OF p`.execute(trx);
    const [policy] = held;
    if (policy === undefined) return false;
    // The lock may have waited for a change. The statement that waited sees the policy's new row, and its `@id` selectors, rows of another table, as they were.
    const { rows } = await sql`SELECT 1 FROM service_policy p WHERE p.id = ${policy.id} AND ${grants}`.execute(trx);
    if (rows.length > 0) return true;
  }
}

/** The condition "the router in `alias` may be used by this identity". */
export async function routersOfIdentity(
  db: Db,
  identity: Attributed | undefined,
  alias: string,
): Promise<RawBuilder<SqlBool>> {
  return routerSide(db, "edge_router_policy", "identity", identity, alias);
}

/** The condition "the router in `alias` may carry this service". */
export async function routersOfService(
  db: Db,
  service: Attributed | undefined,
  alias: string,
): Promise<RawBuilder<SqlBool>> {
  return routerSide(db, "service_edge_router_policy", "service", service, alias);
}

/** How many edge routers an identity may use, and how many may carry a service. */
export async function countRouters(
  db: Db,
  identity: Attributed,
  service: Attributed,
): Promise<{ readonly ofIdentity: number; readonly ofService: number }> {
  const forIdentity = await routersOfIdentity(db, identity, "r");
  const forService = await routersOfService(db, service, "r");
  const { rows } = await sql<{ of_identity: number; of_service: number }>`
    SELECT count(*) FILTER (WHERE ${forIdentity})::int AS of_identity, count(*) FILTER (WHERE ${forService})::int AS of_service
    FROM router r WHERE r.kind = 'edge'`.execute(db);
  return { ofIdentity: rows[0]?.of_identity ?? 0, ofService: rows[0]?.of_service ?? 0 };
}

/** May identity and service both use the router? */
export async function mayUseRouter(
  db: Db,
  identity: Attributed,
  service: Attributed,
  router: Attributed,
): Promise<boolean> {
  const { rows } = await sql<{ allowed: boolean }>`SELECT (
      EXISTS (SELECT 1 FROM edge_router_policy p WHERE ${selects("edge_router_policy", "identity", identity, "p")}
        AND ${selects("edge_router_policy", "router", router, "p")})
      AND EXISTS (SELECT 1 FROM service_edge_router_policy p
        WHERE ${selects("service_edge_router_policy", "service", service, "p")}
        AND ${selects("service_edge_router_policy", "router", router, "p")})) AS allowed`.execute(db);
  return rows[0]?.allowed ?? false;
}

async function routerSide(
  db: Db,
  policyTable: Exclude<PolicyTable, "service_policy">,
  side: "identity" | "service",
  entity: Attributed | undefined,
  alias: string,
): Promise<RawBuilder<SqlBool>> {
  const { rows } = await sql<Omit<SideRow, "type">>`
    SELECT p.semantic, p.router_all AS "all", p.router_attrs AS attrs, ${refIds(policyTable, "router")} AS ids
    FROM ${sql.table(policyTable)} p WHERE ${selects(policyTable, side, entity, "p")}`.execute(db);
  return selectedByAny(
    rows.map((row) => ({ semantic: row.semantic, selector: row })),
    alias,
  );
}
