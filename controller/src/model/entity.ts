/** What the writes of all entities share. */
import { fieldError, notFound } from "@sallyport/api";
import { sql } from "kysely";
import type { Db } from "./context.ts";

/** Tables of entities with an id. */
export type EntityTable =
  | "identity"
  | "router"
  | "service"
  | "config"
  | "config_type"
  | "service_policy"
  | "edge_router_policy"
  | "service_edge_router_policy"
  | "terminator"
  | "auth_policy"
  | "authenticator"
  | "enrollment"
  | "api_session"
  | "session"
  | "posture_check"
  | "ca"
  | "ext_jwt_signer";

/** How error texts name what a table holds. */
export const ENTITY_NAMES: Readonly<Record<EntityTable, string>> = {
  identity: "identity",
  router: "router",
  service: "service",
  config: "config",
  config_type: "configType",
  service_policy: "servicePolicy",
  edge_router_policy: "edgeRouterPolicy",
  service_edge_router_policy: "serviceEdgeRouterPolicy",
  terminator: "terminator",
  auth_policy: "authPolicy",
  authenticator: "authenticator",
  enrollment: "enrollment",
  api_session: "apiSession",
  session: "session",
  posture_check: "postureCheck",
  ca: "ca",
  ext_jwt_signer: "externalJwtSigner",
};

/** A value for a JSON column; an absent one stays absent. */
export function json(value: object): string;
export function json(value: object | undefined): string | undefined;
export function json(value: object | undefined): string | undefined {
  return value === undefined ? undefined : JSON.stringify(value);
}

/** @throws ApiError 400 on field `name` when it is empty */
export function requireName(name: string): void {
  if (name.trim() === "") throw fieldError("name", "name is required", name);
}

/** @throws ApiError 404 */
export function found<T>(row: T | undefined, table: EntityTable, id: string): T {
  if (row === undefined) throw notFound(ENTITY_NAMES[table], id);
  return row;
}

/** The names of entities by id; ids that are unknown are left out. */
export async function namesOf(db: Db, table: EntityTable, ids: Iterable<string>): Promise<ReadonlyMap<string, string>> {
  const wanted = [...new Set(ids)];
  if (wanted.length === 0) return new Map();
  const { rows } = await sql<{ id: string; name: string }>`
    SELECT id, name FROM ${sql.table(table)} WHERE id = ANY (${wanted}::text[])`.execute(db);
  return new Map(rows.map((row) => [row.id, row.name]));
}
