import { fieldError, notFound, type serviceCreate, type servicePatch } from "@sallyport/api";
import { type Selectable, sql } from "kysely";
import type { z } from "zod";
import { isTerminatorStrategy } from "../../fabric/ports.ts";
import { appendChange } from "../../store/change-log.ts";
import { Statement } from "../../store/driver/statement.ts";
import { likely } from "../../store/id-array.ts";
import { randomEntityId } from "../../store/ids.ts";
import { LoggedStatement } from "../../store/logged-write.ts";
import type { ServiceTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { found, json, requireName } from "../entity.ts";
import { updateAttributed } from "../entity-update.ts";
import { roleAttributes } from "../policy/role-selector.ts";
import { dropFromPolicies, endSessions, removeTerminators } from "../session/session-removal.ts";
import { translated } from "../store-errors.ts";

export type ServiceRow = Selectable<ServiceTable>;
export type NewService = z.output<typeof serviceCreate>;
export type ServiceChange = z.output<typeof servicePatch>;

const CREATE = new LoggedStatement<never>(
  `WITH made AS (
    INSERT INTO service (id, name, attrs, encryption_required, terminator_strategy, max_idle_time_millis, tags)
    VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id)`,
  { changes: [{ kind: "service", op: "create", of: "made" }] },
);
const LOCK = new Statement<ServiceRow>("SELECT * FROM service WHERE id = $1 FOR UPDATE");
const BY_IDS = new Statement<ServiceRow>("SELECT * FROM service WHERE id = ANY ($1::text[]) ORDER BY id");

/** What identities dial and bind. */
export class Services {
  readonly #ctx: ModelContext;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  async create(service: NewService): Promise<string> {
    requireName(service.name);
    const id = randomEntityId();
    const { db } = this.#ctx.store;
    const row = [
      id,
      service.name,
      roleAttributes(service.roleAttributes),
      service.encryptionRequired,
      strategy(service.terminatorStrategy),
      service.maxIdleTimeMillis,
      json(service.tags),
    ];
    await translated(async () => {
      if (service.configs.length === 0) await CREATE.rows(db, row);
      else {
        await this.#ctx.store.transaction(async (trx) => {
          await CREATE.rows(trx, row);
          await this.#addConfigs(trx, id, service.configs);
        });
      }
    });
    return id;
  }

  /** Applies the fields that are present; `encryptionRequired` is fixed at creation and not looked at. */
  async update(id: string, change: ServiceChange): Promise<void> {
    if (change.name !== undefined) requireName(change.name);
    const { configs } = change;
    const values = {
      name: change.name,
      attrs: change.roleAttributes === undefined ? undefined : roleAttributes(change.roleAttributes),
      terminator_strategy: change.terminatorStrategy === undefined ? undefined : strategy(change.terminatorStrategy),
      max_idle_time_millis: change.maxIdleTimeMillis,
      tags: json(change.tags),
      updated_at: this.#ctx.now(),
    };
    await translated(() =>
      configs === undefined
        ? this.#write(this.#ctx.store.db, id, values)
        : this.#ctx.store.transaction(async (trx) => {
            await this.#write(trx, id, values);
            await this.#setConfigs(trx, id, configs);
          }),
    );
  }

  /** Removes the service with its terminators, sessions and selectors. */
  async delete(id: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      const row = await this.#locked(trx, id);
      await removeTerminators(trx, sql`t.service_id = ${id}`);
      await endSessions(trx, sql`s.service_id = ${id}`);
      await dropFromPolicies(trx, "service", id);
      await trx.deleteFrom("service").where("id", "=", id).execute();
      await appendChange(trx, { kind: "service", key: id, op: "delete", before: { attrs: row.attrs } });
    });
  }

  async find(db: Db, id: string): Promise<ServiceRow | undefined> {
    return db.selectFrom("service").selectAll().where("id", "=", id).executeTakeFirst();
  }

  /** Those of the ids that exist, by id. */
  async byIds(db: Db, ids: readonly string[]): Promise<ServiceRow[]> {
    return ids.length === 0 ? [] : BY_IDS.rows(db, [likely(ids)]);
  }

  async findByIdOrName(db: Db, idOrName: string): Promise<ServiceRow | undefined> {
    return db
      .selectFrom("service")
      .selectAll()
      .where((eb) => eb.or([eb("id", "=", idOrName), eb("name", "=", idOrName)]))
      .orderBy((eb) => eb("id", "=", idOrName), "desc")
      .executeTakeFirst();
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<ServiceRow> {
    return found(await this.find(db, id), "service", id);
  }

  async #setConfigs(trx: Db, id: string, configIds: readonly string[]): Promise<void> {
    await trx.deleteFrom("service_config").where("service_id", "=", id).execute();
    await this.#addConfigs(trx, id, configIds);
  }

  async #addConfigs(trx: Db, id: string, configIds: readonly string[]): Promise<void> {
    const wanted = [...new Set(configIds)];
    if (wanted.length === 0) return;
    const rows = await trx.selectFrom("config").select(["id", "config_type_id"]).where("id", "in", wanted).execute();
    const typeOf = new Map(rows.map((row) => [row.id, row.config_type_id]));
    const taken = new Map<string, string>();
    for (const configId of wanted) {
      const type = typeOf.get(configId);
      if (type === undefined) throw notFound("config", configId);
      const other = taken.get(type);
      if (other !== undefined) {
        const reason = `duplicate configs named of type ${type}: a service may have one config per type, found ${other} and ${configId}`;
        throw fieldError("configs", reason, configIds);
      }
      taken.set(type, configId);
    }
    await trx
      .insertInto("service_config")
      .values([...taken].map(([config_type_id, config_id]) => ({ service_id: id, config_type_id, config_id })))
      .execute();
  }

  async #write(db: Db, id: string, values: Readonly<Record<string, unknown>>): Promise<void> {
    found((await updateAttributed(db, "service", id, values)) || undefined, "service", id);
  }

  async #locked(trx: Db, id: string): Promise<ServiceRow> {
    return found(await LOCK.first(trx, [id]), "service", id);
  }
}

function strategy(name: string): string {
  if (name === "") return "smartrouting";
  if (!isTerminatorStrategy(name)) throw notFound("terminatorStrategy", name, "name");
  return name;
}
