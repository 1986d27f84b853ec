import {
  apiError,
  type configCreate,
  type configPatch,
  type configTypeCreate,
  type configTypePatch,
  type configTypeUpdate,
  fieldError,
  notFound,
  unhandledCause,
} from "@sallyport/api";
import { type Selectable, sql } from "kysely";
import type { z } from "zod";
import { appendChange } from "../../store/changes/change-log.ts";
import { loggedWrite } from "../../store/changes/logged-write.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { ConfigTable, ConfigTypeTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { deleteEntity, getEntity, json, lockEntity, requireName, updateEntity } from "../entity.ts";
import { transact } from "../store-errors.ts";
import { SchemaCache } from "./json-schema.ts";

export type ConfigTypeRow = Selectable<ConfigTypeTable>;
export type ConfigRow = Selectable<ConfigTable>;

type ConfigTypeChange = Omit<z.output<typeof configTypePatch>, "schema"> & {
  readonly schema?: Record<string, unknown> | null | undefined;
};

/**
 * The configs of an entity, of each type at most one. @throws ApiError 404 for an unknown one; 400 on field `configs` for a second one of a type, and for a
 * type that is for something else
 */
export async function oneOfEachType(
  trx: Db,
  target: "service" | "router",
  configIds: readonly string[],
): Promise<readonly { config_id: string; config_type_id: string }[]> {
  const wanted = [...new Set(configIds)];
  if (wanted.length === 0) return [];
  const rows = await trx
    .selectFrom("config")
    .innerJoin("config_type", "config_type.id", "config.config_type_id")
    .select(["config.id", "config_type.id as type", "config_type.name as typeName", "config_type.target"])
    .where("config.id", "in", wanted)
    .execute();
  const byId = new Map(rows.map((row) => [row.id, row]));
  const taken = new Map<string, string>();
  for (const configId of wanted) {
    const config = byId.get(configId);
    if (config === undefined) throw notFound("config", configId);
    const { type } = config;
    if (config.target !== target) {
      const reason = `config ${configId} is of type ${config.typeName}, which is for configs of target ${config.target}, not of a ${target}`;
      throw fieldError("configs", reason, configIds);
    }
    const other = taken.get(type);
    if (other !== undefined) {
      const reason = `duplicate configs named of type ${type}: a ${target} may have one config per type, found ${other} and ${configId}`;
      throw fieldError("configs", reason, configIds);
    }
    taken.set(type, configId);
  }
  return [...taken].map(([config_type_id, config_id]) => ({ config_type_id, config_id }));
}

/** Config types, and the configs that fulfil their schemas. */
export class Configs {
  readonly #ctx: ModelContext;
  readonly #schemas = new SchemaCache();

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  async createType(type: z.output<typeof configTypeCreate>, id = randomEntityId()): Promise<string> {
    this.#requireTypeName(type.name);
    const schema = this.#checkedSchema(type.schema);
    await transact(this.#ctx.store, async (trx) => {
      await trx
        .insertInto("config_type")
        .values({
          id,
          name: type.name,
          target: type.target,
          schema: json(schema ?? undefined) ?? null,
          tags: json(type.tags),
        })
        .execute();
      await appendChange(trx, { kind: "config_type", key: id, op: "create" });
    });
    return id;
  }

  /** Applies the fields that are present; a schema of null, or one that says nothing, is removed. */
  async updateType(id: string, change: ConfigTypeChange): Promise<void> {
    if (change.name !== undefined) this.#requireTypeName(change.name);
    const schema = this.#checkedSchema(change.schema);
    await transact(this.#ctx.store, async (trx) => {
      const { target } = await lockEntity(trx, "config_type", id, ["target"]);
      if (change.target !== undefined && change.target !== target) {
        const reason = `the target of a config type never changes: it is ${target}`;
        throw fieldError("target", reason, change.target);
      }
      await updateEntity(trx, "config_type", id, {
        name: change.name,
        schema: schema === null ? null : json(schema),
        tags: json(change.tags),
        updated_at: this.#ctx.now(),
      });
      await appendChange(trx, { kind: "config_type", key: id, op: "update" });
      if (change.name !== undefined) await this.#touchServices(trx, sql`c.config_type_id = ${id}`);
    });
  }

  /** PUT: as {@link updateType}, but a schema that is left out is removed. */
  replaceType(id: string, type: z.output<typeof configTypeUpdate>): Promise<void> {
    return this.updateType(id, { ...type, schema: type.schema ?? null });
  }

  /** @throws ApiError 409 while configs of the type exist */
  async deleteType(id: string): Promise<void> {
    await transact(this.#ctx.store, async (trx) => {
      const users = await trx.selectFrom("config").select("id").where("config_type_id", "=", id).limit(10).execute();
      if (users.length > 0) {
        const ids = users.map((user) => user.id).join(", ");
        const cause = unhandledCause(`config type ${id} is used by the configs ${ids}: delete them first`);
        throw apiError("CAN_NOT_DELETE_REFERENCED_ENTITY", cause);
      }
      await deleteEntity(trx, "config_type", id);
    });
  }

  async create(config: z.output<typeof configCreate>): Promise<string> {
    requireName(config.name);
    const id = randomEntityId();
    await transact(this.#ctx.store, async (trx) => {
      await this.#check(trx, config.configTypeId, config.data);
      await trx
        .insertInto("config")
        .values({
          id,
          name: config.name,
          config_type_id: config.configTypeId,
          data: json(config.data),
          tags: json(config.tags),
        })
        .execute();
      await appendChange(trx, { kind: "config", key: id, op: "create" });
    });
    return id;
  }

  async update(id: string, change: z.output<typeof configPatch>): Promise<void> {
    if (change.name !== undefined) requireName(change.name);
    await transact(this.#ctx.store, async (trx) => {
      const row = await lockEntity(trx, "config", id);
      if (change.data !== undefined) await this.#check(trx, row.config_type_id, change.data);
      await updateEntity(trx, "config", id, {
        name: change.name,
        data: json(change.data),
        tags: json(change.tags),
        updated_at: this.#ctx.now(),
      });
      await appendChange(trx, { kind: "config", key: id, op: "update" });
      await this.#touchServices(trx, sql`c.id = ${id}`);
      await this.#touchRouters(trx, sql`SELECT router_id FROM router_config WHERE config_id = ${id}`);
    });
  }

  /** Takes the config out of the services and routers that list it; refused while it overrides one for an identity. */
  async delete(id: string): Promise<void> {
    await transact(this.#ctx.store, async (trx) => {
      // Waits for a request that lists it in a service at this moment, and then sees it. Otherwise the reference would go with the config, and the log would
      // lack the change of the service.
      await trx.selectFrom("config").select("id").where("id", "=", id).forUpdate().execute();
      const users = await trx
        .selectFrom("identity_service_config")
        .select("identity_id")
        .where("config_id", "=", id)
        .limit(10)
        .execute();
      if (users.length > 0) {
        const ids = users.map((user) => user.identity_id).join(", ");
        const cause = unhandledCause(
          `config ${id} is a service config of the identities ${ids}: remove it there first`,
        );
        throw apiError("CAN_NOT_DELETE_REFERENCED_ENTITY", cause);
      }
      await this.#touchServices(trx, sql`c.id = ${id}`);
      await this.#touchRouters(trx, sql`DELETE FROM router_config WHERE config_id = ${id} RETURNING router_id`);
      await deleteEntity(trx, "config", id);
    });
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<ConfigRow> {
    return getEntity(db, "config", id);
  }

  /** @throws ApiError 404 */
  async getType(db: Db, id: string): Promise<ConfigTypeRow> {
    return getEntity(db, "config_type", id);
  }

  #requireTypeName(name: string): void {
    requireName(name);
    if (name === "all") throw fieldError("name", "all is a reserved name: it stands for every config type", name);
  }

  /** Consoles write `{}` for a type without a schema. */
  #checkedSchema(schema: Record<string, unknown> | null | undefined): Record<string, unknown> | null | undefined {
    if (schema === undefined || schema === null) return schema;
    if (Object.keys(schema).length === 0) return null;
    this.#schemas.requireSchema(schema);
    return schema;
  }

  async #check(trx: Db, typeId: string, data: Record<string, unknown>): Promise<void> {
    const type = await trx.selectFrom("config_type").select("schema").where("id", "=", typeId).executeTakeFirst();
    if (type === undefined) throw fieldError("type", "invalid config type", typeId);
    if (type.schema !== null) this.#schemas.check(type.schema, data);
  }

  /** A config shows in the services that use it: they count as changed, too. */
  async #touchServices(trx: Db, condition: ReturnType<typeof sql>): Promise<void> {
    await loggedWrite(
      trx,
      sql`WITH used AS (
        SELECT service_id FROM service_config sc JOIN config c ON c.id = sc.config_id WHERE ${condition}
        UNION SELECT service_id FROM identity_service_config sc JOIN config c ON c.id = sc.config_id WHERE ${condition}),
      touched AS (
        UPDATE service SET updated_at = ${this.#ctx.now()} WHERE id IN (SELECT service_id FROM used) RETURNING id)`,
      { changes: [{ kind: "service", op: "update", of: "touched" }] },
    );
  }

  /** Routers are told of their configs: those that have one changed, too. `users` gives their ids as `router_id`. */
  async #touchRouters(trx: Db, users: ReturnType<typeof sql>): Promise<void> {
    await loggedWrite(
      trx,
      sql`WITH used AS (${users}),
      touched AS (UPDATE router SET updated_at = ${this.#ctx.now()} WHERE id IN (SELECT router_id FROM used) RETURNING id, attrs)`,
      { changes: [{ kind: "router", op: "update", of: "touched", before: { attrs: "attrs" } }] },
    );
  }
}
