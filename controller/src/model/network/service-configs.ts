import { sql } from "kysely";
import type { Db } from "../context.ts";

/** One config as an identity sees it with a service. */
export interface ServiceConfig {
  readonly service_id: string;
  readonly config_id: string;
  readonly type_name: string;
  /** Null when its type was not asked for. */
  readonly data: Record<string, unknown> | null;
  /** The identity's own one, in place of the service's. */
  readonly is_override: boolean;
}

/** Configs of services, those of the identity behind those of the services. `types`: ids or names of config types whose data is wanted, or `all`. */
export async function configsOfServices(
  db: Db,
  serviceIds: readonly string[],
  { identityId, types }: { readonly identityId: string; readonly types: readonly string[] },
): Promise<ServiceConfig[]> {
  const asked = types.includes("all")
    ? sql`true`
    : sql`(t.id = ANY (${types}::text[]) OR t.name = ANY (${types}::text[]))`;
  const { rows } = await sql<ServiceConfig>`
    SELECT u.service_id, u.config_id, t.name AS type_name, u.is_override, CASE WHEN ${asked} THEN c.data END AS data
    FROM (SELECT service_id, config_id, false AS is_override FROM service_config WHERE service_id = ANY (${serviceIds}::text[])
      UNION ALL SELECT service_id, config_id, true FROM identity_service_config
        WHERE identity_id = ${identityId} AND service_id = ANY (${serviceIds}::text[])) u
    JOIN config c ON c.id = u.config_id JOIN config_type t ON t.id = c.config_type_id
    ORDER BY u.is_override, u.config_id`.execute(db);
  return rows;
}

/** The data that was asked for, by the name of its type; an identity's own config replaces the service's. */
export function configData(configs: readonly ServiceConfig[]): Record<string, Record<string, unknown>> {
  return Object.fromEntries(configs.flatMap((c) => (c.data === null ? [] : [[c.type_name, c.data]])));
}
