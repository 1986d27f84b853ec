import { notFound, type serviceCreate, type servicePatch } from "@sallyport/api";
import { type Selectable, sql } from "kysely";
import type { z } from "zod";
import { isTerminatorStrategy } from "../../fabric/ports.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import { LoggedStatement } from "../../store/changes/logged-write.ts";
import { likely, Statement } from "../../store/driver/statement.ts";
import { randomEntityId } from "../../store/ids.ts";
import { isConditional } from "../../store/row-version.ts";
import type { ServiceTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { findByIdOrName, findEntity, found, getEntity, json, requireName, updateAttributed } from "../entity.ts";
import { roleAttributes } from "../policy/role-selector.ts";
import { dropFromPolicies, endSessions, removeTerminators } from "../session/session-removal.ts";
import { transact, translated } from "../store-errors.ts";
import { oneOfEachType } from "./configs.ts";

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
    const row = [
      id,
      service.name,
      roleAttributes(service.roleAttributes),
      service.encryptionRequired,
      strategy(service.terminatorStrategy),
      service.maxIdleTimeMillis,
      json(service.tags),
    ];
    await (service.configs.length === 0
      ? translated(() => CREATE.rows(this.#ctx.store.db, row))
      : transact(this.#ctx.store, async (trx) => {
          await CREATE.rows(trx, row);
          await addConfigs(trx, id, service.configs);
        }));
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
      configs === undefined && !isConditional()
        ? updateAttributed(this.#ctx.store.db, "service", id, values)
        : this.#ctx.store.transaction(async (trx) => {
            await updateAttributed(trx, "service", id, values);
            if (configs === undefined) return;
            await trx.deleteFrom("service_config").where("service_id", "=", id).execute();
            await addConfigs(trx, id, configs);
          }),
    );
  }

  /** Removes the service with its terminators, sessions and selectors. */
  async delete(id: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      const row = found(await LOCK.first(trx, [id]), "service", id);
      await removeTerminators(trx, sql`t.service_id = ${id}`);
      await endSessions(trx, sql`s.service_id = ${id}`);
      await dropFromPolicies(trx, "service", id);
      await trx.deleteFrom("service").where("id", "=", id).execute();
      await appendChange(trx, { kind: "service", key: id, op: "delete", before: { attrs: row.attrs } });
    });
  }

  async find(db: Db, id: string): Promise<ServiceRow | undefined> {
    return findEntity(db, "service", id);
  }

  /** Those of the ids that exist, by id. */
  async byIds(db: Db, ids: readonly string[]): Promise<ServiceRow[]> {
    return ids.length === 0 ? [] : BY_IDS.rows(db, [likely(ids)]);
  }

  async findByIdOrName(db: Db, idOrName: string): Promise<ServiceRow | undefined> {
    return findByIdOrName(db, "service", idOrName);
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<ServiceRow> {
    return getEntity(db, "service", id);
  }
}

async function addConfigs(trx: Db, id: string, configIds: readonly string[]): Promise<void> {
  const configs = await oneOfEachType(trx, "service", configIds);
  if (configs.length === 0) return;
  await trx
    .insertInto("service_config")
    .values(configs.map((config) => ({ service_id: id, ...config })))
    .execute();
}

function strategy(name: string): string {
  if (name === "") return "smartrouting";
  if (!isTerminatorStrategy(name)) throw notFound("terminatorStrategy", name, "name");
  return name;
}
