import { notFound } from "@sallyport/api";
import { appendChange } from "../../store/change-log.ts";
import type { ModelContext } from "../context.ts";
import type { Identities } from "./identities.ts";

/** An override of a service's config for one identity. */
export interface ServiceConfigPair {
  readonly serviceId: string;
  readonly configId: string;
}

/** Configs that take the place of a service's own ones for single identities. */
export class ServiceConfigOverrides {
  readonly #ctx: ModelContext;
  readonly #identities: Identities;

  constructor(ctx: ModelContext, identities: Identities) {
    this.#ctx = ctx;
    this.#identities = identities;
  }

  /** Those of an identity. @throws ApiError 404 */
  async of(identityId: string): Promise<ServiceConfigPair[]> {
    await this.#identities.get(this.#ctx.store.db, identityId);
    const rows = await this.#ctx.store.db
      .selectFrom("identity_service_config")
      .select(["service_id as serviceId", "config_id as configId"])
      .where("identity_id", "=", identityId)
      .orderBy("service_id")
      .orderBy("config_id")
      .execute();
    return rows;
  }

  /** Sets overrides; one of the same service and config type is replaced. */
  async assign(identityId: string, pairs: readonly ServiceConfigPair[]): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      await this.#identities.locked(trx, identityId);
      for (const pair of pairs) {
        const config = await trx
          .selectFrom("config")
          .select("config_type_id")
          .where("id", "=", pair.configId)
          .executeTakeFirst();
        if (config === undefined) throw notFound("config", pair.configId);
        const service = await trx
          .selectFrom("service")
          .select("id")
          .where("id", "=", pair.serviceId)
          .executeTakeFirst();
        if (service === undefined) throw notFound("service", pair.serviceId);
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

  async remove(identityId: string, pairs: readonly ServiceConfigPair[]): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      await this.#identities.locked(trx, identityId);
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
