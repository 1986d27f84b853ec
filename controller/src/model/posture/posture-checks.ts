import {
  fieldError,
  notFound,
  POSTURE_TYPES,
  type PostureCheckType,
  type PostureFields,
  type postureCheckCreate,
  type postureCheckPatch,
  postureCheckType,
  type postureCheckUpdate,
} from "@sallyport/api";
import { type PostureCheck, postureType, storedFields } from "@sallyport/posture";
import { type RawBuilder, type Selectable, type SqlBool, sql } from "kysely";
import type { z } from "zod";
import type { SelectedCheck } from "../../policy/policy-index.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { PostureCheckTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { getEntity, json, lockEntity, requireName, updateEntity } from "../entity.ts";
import { roleAttributes } from "../policy/role-selector.ts";
import { dropFromPolicies } from "../session/session-removal.ts";
import { transact } from "../store-errors.ts";

type NewCheck = z.output<typeof postureCheckCreate>;
type Replacement = z.output<typeof postureCheckUpdate>;
type CheckChange = z.output<typeof postureCheckPatch>;

/** What service policies ask of devices. */
export class PostureChecks {
  readonly #ctx: ModelContext;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  async create(check: NewCheck): Promise<string> {
    requireName(check.name);
    const type = typeOf(check.typeId);
    const id = randomEntityId();
    const data = { ...postureType(type).defaults, ...dataOf(type, check) };
    await transact(this.#ctx.store, async (trx) => {
      await trx
        .insertInto("posture_check")
        .values({
          id,
          name: check.name,
          type_id: type,
          attrs: roleAttributes(check.roleAttributes),
          data: json(data),
          tags: json(check.tags),
          version: 1,
        })
        .execute();
      await appendChange(trx, { kind: "posture_check", key: id, op: "create" });
    });
    return id;
  }

  /** PUT. The type stays; what it requires has to be there. @throws ApiError 404, 400 for another type or a missing field */
  async replace(id: string, check: Replacement): Promise<void> {
    await this.#update(id, check, (row) => {
      const type = typeOf(row.type_id);
      const given = dataOf(type, check);
      const missing = POSTURE_TYPES[type].required.find((name) => !(name in given));
      if (missing !== undefined) throw fieldError(missing, `${missing} in body is required`);
      return { ...postureType(type).defaults, ...given };
    });
  }

  /** PATCH: what is not given stays. @throws ApiError 404, 400 for another type */
  async patch(id: string, change: CheckChange): Promise<void> {
    await this.#update(id, change, (row) => ({ ...row.data, ...dataOf(typeOf(row.type_id), change) }));
  }

  /** Policies that asked for the check ask for it no longer. @throws ApiError 404 */
  async delete(id: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      const row = await lockEntity(trx, "posture_check", id);
      await dropFromPolicies(trx, "posture_check", id);
      await trx.deleteFrom("posture_check").where("id", "=", id).execute();
      await appendChange(trx, { kind: "posture_check", key: id, op: "delete", before: { attrs: row.attrs } });
    });
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<PostureCheckRow> {
    return getEntity(db, "posture_check", id);
  }

  async #update(
    id: string,
    change: Replacement | CheckChange,
    dataFor: (row: PostureCheckRow) => Record<string, unknown>,
  ): Promise<void> {
    if (change.name !== undefined) requireName(change.name);
    await transact(this.#ctx.store, async (trx) => {
      const row = await lockEntity(trx, "posture_check", id);
      const given = postureCheckType(change.typeId);
      if (given !== undefined && given !== row.type_id) {
        throw fieldError("typeId", `the type of a posture check cannot change, it is ${row.type_id}`, change.typeId);
      }
      await updateEntity(trx, "posture_check", id, {
        name: change.name,
        attrs: change.roleAttributes === undefined ? undefined : roleAttributes(change.roleAttributes),
        data: json(dataFor(row)),
        tags: json(change.tags),
        version: row.version + 1,
        updated_at: this.#ctx.now(),
      });
      await appendChange(trx, { kind: "posture_check", key: id, op: "update", before: { attrs: row.attrs } });
    });
  }
}

function typeOf(typeId: string): PostureCheckType {
  const type = postureCheckType(typeId);
  if (type === undefined) throw notFound("postureCheckType", typeId);
  return type;
}

/** A request's fields of the type, as they are stored. @throws ApiError 400 for a field that the type refuses */
function dataOf(type: PostureCheckType, given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { defaults, problem, normalized } = postureType(type);
  const names = Object.keys(defaults).filter((name) => given[name] !== undefined);
  const data: Partial<PostureFields<PostureCheckType>> = Object.fromEntries(names.map((name) => [name, given[name]]));
  const found = problem?.(data);
  if (found !== undefined) throw fieldError(found.field, found.reason, found.value);
  return normalized?.(data) ?? data;
}

export type PostureCheckRow = Selectable<PostureCheckTable>;

/** A stored check as it is evaluated. @throws Error for a type that this controller does not know */
function checkOf(row: PostureCheckRow): PostureCheck {
  const common = { id: row.id, name: row.name, createdAt: row.created_at, updatedAt: row.updated_at };
  return { ...common, typeId: row.type_id, ...storedFields(row.type_id, row.data) } as PostureCheck;
}

/** The checks, all or those with the ids, as the policy index takes them. */
export async function selectedChecks(db: Db, ids?: readonly string[]): Promise<SelectedCheck[]> {
  if (ids?.length === 0) return [];
  const wanted: RawBuilder<SqlBool> = ids === undefined ? sql`true` : sql`id = ANY (${ids}::text[])`;
  const { rows } = await sql<PostureCheckRow>`SELECT * FROM posture_check WHERE ${wanted}`.execute(db);
  return rows.map((row) => ({ id: row.id, attrs: row.attrs, check: checkOf(row) }));
}
