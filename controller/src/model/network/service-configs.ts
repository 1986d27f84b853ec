import { sql } from "kysely";
import { appendChange } from "../../store/changes/change-log.ts";
import type { Db, ModelContext } from "../context.ts";
import { getEntity, lockEntity, requireEntity } from "../entity.ts";

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

/** An override of a service's config for one identity. */
export interface ConfigOverride {
  readonly serviceId: string;
  readonly configId: string;
}

/** Configs that take the place of a service's own ones for single identities. */
export class ServiceConfigOverrides {
  readonly #ctx: ModelContext;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  /** Those of an identity. @throws ApiError 404 */
  async of(identityId: string): Promise<ConfigOverride[]> {
    await requireEntity(this.#ctx.store.db, "identity", identityId);
    return this.#ctx.store.db
      .selectFrom("identity_service_config")
      .select(["service_id as serviceId", "config_id as configId"])
      .where("identity_id", "=", identityId)
      .orderBy("service_id")
      .orderBy("config_id")
      .execute();
  }

  /** Sets overrides; one of the same service and config type is replaced. */
  async assign(identityId: string, pairs: readonly ConfigOverride[]): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      await lockEntity(trx, "identity", identityId);
      for (const pair of pairs) {
        const config = await getEntity(trx, "config", pair.configId, ["config_type_id"]);
        await requireEntity(trx, "service", pair.serviceId);
        await trx
          .insertInto("identity_service_config")
          .values({
            identity_id: identityId,
            service_id: pair.serviceId,
            config_type_id: config.config_type_id,
            config_id: pair.configId,
          })
          .onConflict((conflict) =>
            conflict.columns(["identity_id", "service_id", "config_type_id"]).doUpdateSet({ config_id: pair.configId }),
          )
          .execute();
      }
      await appendChange(trx, { kind: "identity_service_config", key: identityId, op: "update" });
    });
  }

  async remove(identityId: string, pairs: readonly ConfigOverride[]): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      await lockEntity(trx, "identity", identityId);
      for (const pair of pairs) {
        await trx
          .deleteFrom("identity_service_config")
          .where("identity_id", "=", identityId)
          .where("service_id", "=", pair.serviceId)
          .where("config_id", "=", pair.configId)
          .execute();
      }
      if (pairs.length > 0) await appendChange(trx, { kind: "identity_service_config", key: identityId, op: "update" });
    });
  }
}
