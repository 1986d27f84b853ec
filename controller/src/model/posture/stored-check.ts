import type { Selectable } from "kysely";
import { type RawBuilder, type SqlBool, sql } from "kysely";
import type { SelectedCheck } from "../../policy/policy-index.ts";
import type { OperatingSystem, PostureCheck, ProcessMatch } from "../../policy/posture.ts";
import type { PostureCheckTable } from "../../store/schema.ts";
import type { Db } from "../context.ts";

export type PostureCheckRow = Selectable<PostureCheckTable>;

/** What the types store besides the common columns; absent lists are empty. */
interface StoredData {
  readonly operatingSystems?: readonly OperatingSystem[];
  readonly domains?: readonly string[];
  readonly macAddresses?: readonly string[];
  readonly process?: Extract<PostureCheck, { typeId: "PROCESS" }>["process"];
  readonly semantic?: "AllOf" | "AnyOf";
  readonly processes?: readonly ProcessMatch[];
  readonly timeoutSeconds?: number;
  readonly promptOnWake?: boolean;
  readonly promptOnUnlock?: boolean;
  readonly ignoreLegacyEndpoints?: boolean;
}

/** A stored check as it is evaluated.*/
export function checkOf(row: PostureCheckRow): PostureCheck {
  const data = row.data as StoredData;
  const common = { id: row.id, name: row.name, createdAt: row.created_at, updatedAt: row.updated_at };
  switch (row.type_id) {
    case "OS":
      return { ...common, typeId: "OS", operatingSystems: data.operatingSystems ?? [] };
    case "DOMAIN":
      return { ...common, typeId: "DOMAIN", domains: data.domains ?? [] };
    case "MAC":
      return { ...common, typeId: "MAC", macAddresses: data.macAddresses ?? [] };
    case "PROCESS":
      return {
        ...common,
        typeId: "PROCESS",
        process: data.process ?? { osType: "Linux", path: "", hashes: [] },
      };
    case "PROCESS_MULTI":
      return {
        ...common,
        typeId: "PROCESS_MULTI",
        semantic: data.semantic ?? "AllOf",
        processes: data.processes ?? [],
      };
    case "MFA":
      return {
        ...common,
        typeId: "MFA",
        timeoutSeconds: data.timeoutSeconds ?? -1,
        promptOnWake: data.promptOnWake ?? false,
        promptOnUnlock: data.promptOnUnlock ?? false,
        ignoreLegacyEndpoints: data.ignoreLegacyEndpoints ?? false,
      };
    default:
      throw new Error(`posture check ${row.id} is of the unknown type ${row.type_id}`);
  }
}

/** The checks, all or those with the ids, as the policy index takes them. */
export async function selectedChecks(db: Db, ids?: readonly string[]): Promise<SelectedCheck[]> {
  if (ids?.length === 0) return [];
  const wanted: RawBuilder<SqlBool> = ids === undefined ? sql`true` : sql`id = ANY (${ids}::text[])`;
  const { rows } = await sql<PostureCheckRow>`SELECT * FROM posture_check WHERE ${wanted}`.execute(db);
  return rows.map((row) => ({ id: row.id, attrs: row.attrs, check: checkOf(row) }));
}
