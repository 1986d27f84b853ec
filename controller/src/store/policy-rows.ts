import { type Kysely, sql } from "kysely";
import type { NamedEntity, PolicyRows, ServicePolicy } from "../policy/policy-index.ts";
import type { RouterPolicy } from "../policy/router-access.ts";
import type { Attributed, RoleSelector, Semantic } from "../policy/selector.ts";
import type { Database } from "./schema.ts";

type Queryable = Pick<Kysely<Database>, "getExecutor">;

interface SelectorRow {
  id: string;
  semantic: Semantic;
  refs: { side: string; id: string }[] | null;
  [column: string]: unknown;
}

/** Reads what the policy index is built from; `db` should be a REPEATABLE READ transaction, so that the parts fit together. */
export async function loadPolicyRows(db: Queryable): Promise<PolicyRows> {
  return {
    services: await services(db),
    routers: await attributed(db, "router"),
    postureChecks: await attributed(db, "posture_check"),
    servicePolicies: await servicePolicies(db),
    edgeRouterPolicies: await routerPolicies(db, "edge_router_policy", "identity"),
    serviceEdgeRouterPolicies: await routerPolicies(db, "service_edge_router_policy", "service"),
  };
}

/** Services, all or those with the ids. */
export async function services(db: Queryable, ids?: readonly string[]): Promise<NamedEntity[]> {
  const { rows } = await sql<NamedEntity>`SELECT id, name, attrs FROM service ${chosen(ids)}`.execute(
    db as Kysely<Database>,
  );
  return rows;
}

/** Routers or posture checks, all or those with the ids. */
export async function attributed(
  db: Queryable,
  table: "router" | "posture_check",
  ids?: readonly string[],
): Promise<Attributed[]> {
  const { rows } = await sql<Attributed>`SELECT id, attrs FROM ${sql.table(table)} ${chosen(ids)}`.execute(
    db as Kysely<Database>,
  );
  return rows;
}

/** Service policies, all or those with the ids. */
export async function servicePolicies(db: Queryable, ids?: readonly string[]): Promise<ServicePolicy[]> {
  const rows = await policies(db, "service_policy", ids);
  return rows.map((row) => ({
    id: row.id,
    semantic: row.semantic,
    type: row.type as ServicePolicy["type"],
    identities: selector(row, "identity"),
    services: selector(row, "service"),
    postureChecks: selector(row, "posture_check"),
  }));
}

/** Edge-router policies or service-edge-router policies, all or those with the ids. */
export async function routerPolicies(
  db: Queryable,
  table: "edge_router_policy" | "service_edge_router_policy",
  from: "identity" | "service",
  ids?: readonly string[],
): Promise<RouterPolicy[]> {
  const rows = await policies(db, table, ids);
  return rows.map((row) => ({
    id: row.id,
    semantic: row.semantic,
    from: selector(row, from),
    routers: selector(row, "router"),
  }));
}

async function policies(db: Queryable, table: string, ids?: readonly string[]): Promise<SelectorRow[]> {
  const { rows } = await sql<SelectorRow>`
    SELECT p.*, (SELECT json_agg(json_build_object('side', r.side, 'id', r.entity_id)) FROM ${sql.table(`${table}_ref`)} r
      WHERE r.policy_id = p.id) AS refs
    FROM ${sql.table(table)} p ${chosen(ids)}`.execute(db as Kysely<Database>);
  return rows;
}

function chosen(ids: readonly string[] | undefined) {
  return ids === undefined ? sql`` : sql`WHERE id = ANY(${ids})`;
}

function selector(row: SelectorRow, side: string): RoleSelector {
  return {
    all: row[`${side}_all`] === true,
    attrs: (row[`${side}_attrs`] ?? []) as string[],
    ids: (row.refs ?? []).filter((ref) => ref.side === side).map((ref) => ref.id),
  };
}
