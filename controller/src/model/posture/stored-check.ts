import { type RawBuilder, type Selectable, type SqlBool, sql } from "kysely";
import type { SelectedCheck } from "../../policy/policy-index.ts";
import { type PostureCheck, storedFields } from "../../policy/posture/types.ts";
import type { PostureCheckTable } from "../../store/schema.ts";
import type { Db } from "../context.ts";

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
