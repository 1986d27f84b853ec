import { apiError, unhandledCause } from "@sallyport/api";
import type { Permission } from "@sallyport/wire";
import { type RawBuilder, type Selectable, type SqlBool, sql } from "kysely";
import type { Attributed, RoleSelector } from "../../policy/selector.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import type { PolicyBefore } from "../../store/changes/logged-write.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { EdgeRouterPolicyTable, Semantic, Tags } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { found, json, requireName } from "../entity.ts";
import { transact } from "../store-errors.ts";
import { type NamedEntity, NOTHING, parseRoles, resolveSelector } from "./role-selector.ts";
import {
  type PolicySide,
  type PolicyTable,
  type RoleSelection,
  refIds,
  selectedByAny,
  selects,
} from "./selection-sql.ts";

/** One of the three kinds of policy: its table, and the API's field for each side. */
export interface PolicyKind {
  readonly table: PolicyTable;
  readonly sides: readonly { readonly side: PolicySide; readonly field: RoleField; readonly entity: string }[];
}

export type RoleField = "identityRoles" | "serviceRoles" | "edgeRouterRoles" | "postureCheckRoles";

const IDENTITIES = { side: "identity", field: "identityRoles", entity: "identities" } as const;
const SERVICES = { side: "service", field: "serviceRoles", entity: "services" } as const;
const ROUTERS = { side: "router", field: "edgeRouterRoles", entity: "routers" } as const;
const CHECKS = { side: "posture_check", field: "postureCheckRoles", entity: "posture-checks" } as const;

/** Grants identities Dial or Bind on services. */
export const SERVICE_POLICY: PolicyKind = { table: "service_policy", sides: [IDENTITIES, SERVICES, CHECKS] };
/** Lets identities use edge routers. */
export const EDGE_ROUTER_POLICY: PolicyKind = { table: "edge_router_policy", sides: [IDENTITIES, ROUTERS] };
/** Lets services use edge routers. */
export const SERVICE_EDGE_ROUTER_POLICY: PolicyKind = {
  table: "service_edge_router_policy",
  sides: [SERVICES, ROUTERS],
};

/** What a policy is made or changed with: absent fields stay, role lists are as the API takes them. */
export interface PolicyInput extends Partial<Readonly<Record<RoleField, readonly string[] | undefined>>> {
  readonly name?: string | undefined;
  readonly semantic?: Semantic | undefined;
  readonly type?: Permission | undefined;
  readonly tags?: Tags | undefined;
}

/** A policy as it is stored, its selectors put together. */
export interface PolicyRecord {
  readonly id: string;
  readonly name: string;
  readonly semantic: Semantic;
  readonly type?: Permission | undefined;
  readonly isSystem: boolean;
  readonly tags: Tags;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly selectors: Readonly<Partial<Record<PolicySide, RoleSelector>>>;
}

/** One kind of policy. */
export class Policies {
  readonly kind: PolicyKind;
  readonly #ctx: ModelContext;

  constructor(ctx: ModelContext, kind: PolicyKind) {
    this.#ctx = ctx;
    this.kind = kind;
  }

  async create(input: PolicyInput & { readonly name: string; readonly semantic: Semantic }): Promise<string> {
    requireName(input.name);
    const id = randomEntityId();
    await transact(this.#ctx.store, async (trx) => {
      const columns = [["id", id] as [string, unknown], ...columnsOf({ tags: {}, ...input })];
      const sides: [PolicySide, RoleSelector][] = [];
      for (const { side, field } of this.kind.sides) {
        const selector = await this.#resolve(trx, side, field, input[field]);
        sides.push([side, selector]);
        columns.push([`${side}_all`, selector.all], [`${side}_attrs`, selector.attrs]);
      }
      await sql`INSERT INTO ${sql.table(this.kind.table)} (${sql.join(columns.map(([name]) => sql.ref(name)))})
        VALUES (${sql.join(columns.map(([, value]) => value))})`.execute(trx);
      for (const [side, selector] of sides) await this.#setRefs(trx, id, side, selector.ids);
      await appendChange(trx, { kind: this.kind.table, key: id, op: "create" });
    });
    return id;
  }

  async update(id: string, input: PolicyInput): Promise<void> {
    if (input.name !== undefined) requireName(input.name);
    await transact(this.#ctx.store, async (trx) => {
      const before = await this.#changeable(trx, id, "ENTITY_CAN_NOT_BE_UPDATED");
      const columns = [["updated_at", this.#ctx.now()] as [string, unknown], ...columnsOf(input)];
      for (const { side, field } of this.kind.sides) {
        if (input[field] === undefined) continue;
        const selector = await this.#resolve(trx, side, field, input[field]);
        columns.push([`${side}_all`, selector.all], [`${side}_attrs`, selector.attrs]);
        await this.#setRefs(trx, id, side, selector.ids);
      }
      const assignments = columns.map(([name, value]) => sql`${sql.ref(name)} = ${value}`);
      await sql`UPDATE ${sql.table(this.kind.table)} SET ${sql.join(assignments)} WHERE id = ${id}`.execute(trx);
      await appendChange(trx, { kind: this.kind.table, key: id, op: "update", before: changeBefore(before) });
    });
  }

  async delete(id: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      const before = await this.#changeable(trx, id, "ENTITY_CAN_NOT_BE_DELETED");
      await sql`DELETE FROM ${sql.table(this.kind.table)} WHERE id = ${id}`.execute(trx);
      await appendChange(trx, { kind: this.kind.table, key: id, op: "delete", before: changeBefore(before) });
    });
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<PolicyRecord> {
    return found((await this.byIds(db, [id]))[0], this.kind.table, id);
  }

  /** The policies that select an entity on one side; none of what there is not. */
  async selecting(db: Db, side: PolicySide, entity: Attributed | undefined): Promise<PolicyRecord[]> {
    const { table } = this.kind;
    const { rows } = await sql<{ id: string }>`
      SELECT p.id FROM ${sql.table(table)} p WHERE ${selects(table, side, entity, "p")}`.execute(db);
    return this.byIds(
      db,
      rows.map((row) => row.id),
    );
  }

  /** The policies with these ids, in their order. */
  async byIds(db: Db, ids: readonly string[]): Promise<PolicyRecord[]> {
    if (ids.length === 0) return [];
    const arrays = this.kind.sides.map(
      ({ side }) => sql`${refIds(this.kind.table, side)} AS ${sql.ref(`${side}_ids`)}`,
    );
    const { rows } = await sql<Record<string, unknown>>`
      SELECT p.*, ${sql.join(arrays)} FROM ${sql.table(this.kind.table)} p WHERE p.id = ANY (${ids}::text[])`.execute(
      db,
    );
    const byId = new Map(rows.map((row) => [String(row.id), this.#record(row)]));
    return ids.flatMap((id) => byId.get(id) ?? []);
  }

  #record(row: Record<string, unknown>): PolicyRecord {
    const base = row as unknown as Selectable<EdgeRouterPolicyTable> & { readonly type?: Permission };
    const selectors = this.kind.sides.map(({ side }) => [
      side,
      { all: row[`${side}_all`], attrs: row[`${side}_attrs`], ids: row[`${side}_ids`] } as RoleSelector,
    ]);
    return {
      id: base.id,
      name: base.name,
      semantic: base.semantic,
      type: base.type,
      isSystem: base.is_system,
      tags: base.tags,
      createdAt: base.created_at,
      updatedAt: base.updated_at,
      selectors: Object.fromEntries(selectors),
    };
  }

  async #changeable(
    trx: Db,
    id: string,
    code: "ENTITY_CAN_NOT_BE_UPDATED" | "ENTITY_CAN_NOT_BE_DELETED",
  ): Promise<PolicyRecord> {
    await sql`SELECT 1 FROM ${sql.table(this.kind.table)} WHERE id = ${id} FOR UPDATE`.execute(trx);
    const record = await this.get(trx, id);
    if (record.isSystem) throw apiError(code, unhandledCause(`${record.name} is a system policy`));
    return record;
  }

  async #resolve(
    trx: Db,
    side: PolicySide,
    field: RoleField,
    roles: readonly string[] | undefined,
  ): Promise<RoleSelector> {
    const selector = parseRoles(field, roles);
    if (selector.ids.length === 0) return selector;
    const { rows } = await sql<NamedEntity>`
      SELECT id, name FROM ${sql.table(side)}
      WHERE id = ANY (${selector.ids}::text[]) OR name = ANY (${selector.ids}::text[])`.execute(trx);
    const entity = this.kind.sides.find((s) => s.side === side)?.entity ?? side;
    return resolveSelector(field, entity, selector, rows);
  }

  async #setRefs(trx: Db, id: string, side: PolicySide, entityIds: readonly string[]): Promise<void> {
    const table = sql.table(`${this.kind.table}_ref`);
    await sql`DELETE FROM ${table} WHERE policy_id = ${id} AND side = ${side}
      AND NOT entity_id = ANY (${entityIds}::text[])`.execute(trx);
    if (entityIds.length === 0) return;
    await sql`INSERT INTO ${table} (policy_id, side, entity_id)
      SELECT ${id}, ${side}, e FROM unnest(${entityIds}::text[]) e ON CONFLICT DO NOTHING`.execute(trx);
  }
}

/** The condition "one of these policies selects this row on that side", for the table that the side is named after. */
export function selectedByPolicies(policies: readonly PolicyRecord[], side: PolicySide): RawBuilder<SqlBool> {
  return selectedByAny(
    policies.map((policy) => selectionOf(policy, side)),
    side,
  );
}

/** A policy's selector on one side, as SQL takes it. */
export function selectionOf(policy: PolicyRecord, side: PolicySide): RoleSelection {
  return { selector: selectorOf(policy, side), semantic: policy.semantic };
}

/** A policy's selector on one side; a side that its kind does not have selects nothing. */
export function selectorOf(policy: PolicyRecord, side: PolicySide): RoleSelector {
  return policy.selectors[side] ?? NOTHING;
}

/** The plain columns that a request gives. */
function columnsOf({ name, semantic, type, tags }: PolicyInput): [string, unknown][] {
  return Object.entries({ name, semantic, type, tags: json(tags) }).filter(([, value]) => value !== undefined);
}

function changeBefore(policy: PolicyRecord): Record<string, unknown> {
  const { semantic, type, selectors: sides } = policy;
  return { semantic, sides, type } satisfies PolicyBefore;
}
