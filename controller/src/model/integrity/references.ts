import { type RawBuilder, sql } from "kysely";
import { type ChangeKind, loggedWrite } from "../../store/changes/logged-write.ts";
import type { Db } from "../context.ts";
import { DEFAULT_AUTH_POLICY } from "../seeds.ts";
import { endApiSessions, endSessions, removeTerminators } from "../session/session-removal.ts";
import type { IntegrityCheck, Violation } from "./integrity-check.ts";

/** A foreign key as the database describes it. */
interface ForeignKey {
  readonly child: string;
  readonly columns: readonly string[];
  readonly parent: string;
  readonly parent_columns: readonly string[];
  /** Columns that name a child row. */
  readonly key: readonly string[];
  readonly has_id: boolean;
  /** What becomes of the child when its parent is deleted: `c` it goes, `n` its reference is emptied, else the delete is refused. */
  readonly on_delete: string;
  readonly nullable: boolean;
}

/**
 * Every reference between rows leads to a row that exists: selectors that name what is gone, orphans of any kind. The list of references comes from the
 * database, so a table that is added later is covered.
 */
export async function referenceChecks(db: Db): Promise<IntegrityCheck[]> {
  const { rows } = await sql<ForeignKey>`
    SELECT c.relname AS child, p.relname AS parent, k.confdeltype AS on_delete,
      (SELECT array_agg(a.attname::text ORDER BY n) FROM unnest(k.conkey) WITH ORDINALITY u (num, n)
        JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.num) AS columns,
      (SELECT array_agg(a.attname::text ORDER BY n) FROM unnest(k.confkey) WITH ORDINALITY u (num, n)
        JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.num) AS parent_columns,
      (SELECT array_agg(a.attname::text ORDER BY n) FROM pg_constraint q, unnest(q.conkey) WITH ORDINALITY u (num, n)
        JOIN pg_attribute a ON a.attnum = u.num WHERE q.conrelid = k.conrelid AND q.contype = 'p' AND a.attrelid = k.conrelid) AS key,
      EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = k.conrelid AND a.attname = 'id') AS has_id,
      EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)
        AND NOT a.attnotnull AND a.attgenerated = '') AS nullable
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class p ON p.oid = k.confrelid
    JOIN pg_namespace s ON s.oid = c.relnamespace
    WHERE k.contype = 'f' AND s.nspname = 'public' ORDER BY c.relname, k.conname`.execute(db);
  return rows.map(check);
}

function check(reference: ForeignKey): IntegrityCheck {
  const { child, columns, parent } = reference;
  const dangling = condition(reference);
  const fix = repair(reference, dangling);
  return {
    name: `${child}.${columns.join(",")}`,
    async find(db, limit) {
      const { rows } = await sql<{ key: string; row: string; value: string }>`
        SELECT c.ctid::text AS key, ${joined(reference.key.length > 0 ? reference.key : columns)} AS row, ${joined(columns)} AS value
        FROM ${sql.table(child)} c WHERE ${dangling} LIMIT ${limit}`.execute(db);
      return rows.map(({ key, row, value }) => ({
        key,
        description: `${child} ${row} refers by ${columns.join(", ")} to ${parent} ${value}, which does not exist`,
      }));
    },
    ...(fix && { fix }),
  };
}

function condition({ columns, parent, parent_columns }: ForeignKey): RawBuilder<boolean> {
  const present = columns.map((column) => sql`c.${sql.ref(column)} IS NOT NULL`);
  const equal = columns.map((column, i) => sql`p.${sql.ref(parent_columns[i] ?? "id")} = c.${sql.ref(column)}`);
  return sql`${sql.join(present, sql` AND `)} AND NOT EXISTS (
    SELECT 1 FROM ${sql.table(parent)} p WHERE ${sql.join(equal, sql` AND `)})`;
}

function joined(columns: readonly string[]): RawBuilder<string> {
  return sql`concat_ws('/', ${sql.join(columns.map((column) => sql`c.${sql.ref(column)}::text`))})`;
}

type Fix = NonNullable<IntegrityCheck["fix"]>;

function repair(reference: ForeignKey, dangling: RawBuilder<boolean>): Fix | undefined {
  const { child, columns } = reference;
  const among = (findings: readonly Violation[]) =>
    sql<boolean>`c.ctid = ANY (${findings.map(({ key }) => key)}::tid[]) AND ${dangling}`;
  if (reference.on_delete === "c" || (!reference.has_id && !reference.nullable)) {
    return async (db, findings) => remove(db, reference, among(findings));
  }
  const [column] = columns;
  if (column === undefined || columns.length > 1) return undefined;
  const value = reference.nullable ? sql`NULL` : column === "auth_policy_id" ? sql`${DEFAULT_AUTH_POLICY}` : undefined;
  if (value === undefined || !reference.has_id) return undefined;
  return async (db, findings) => {
    await loggedWrite(
      db,
      sql`WITH changed AS (UPDATE ${sql.table(child)} c SET ${sql.ref(column)} = ${value} WHERE ${among(findings)} RETURNING c.id)`,
      { changes: [{ kind: child as ChangeKind, op: "update", of: "changed" }] },
    );
  };
}

/** Removes rows and records it in the change log. */
async function remove(db: Db, { child, has_id }: ForeignKey, among: RawBuilder<boolean>): Promise<void> {
  const ids = sql`(SELECT c.id FROM ${sql.table(child)} c WHERE ${among})`;
  if (child === "api_session") return void (await endApiSessions(db, sql`a.id IN ${ids}`));
  if (child === "session") return void (await endSessions(db, sql`s.id IN ${ids}`));
  if (child === "terminator") return void (await removeTerminators(db, sql`t.id IN ${ids}`));
  const isEntity = has_id && child !== "oidc_login";
  const owner = isEntity ? { kind: child as ChangeKind, column: "id" } : ownerOf(child);
  if (owner === undefined) return void (await sql`DELETE FROM ${sql.table(child)} c WHERE ${among}`.execute(db));
  await loggedWrite(
    db,
    sql`WITH gone AS (DELETE FROM ${sql.table(child)} c WHERE ${among} RETURNING c.${sql.ref(owner.column)} AS id)`,
    { changes: [{ kind: owner.kind, op: isEntity ? "delete" : "update", of: "gone", isDistinct: true }] },
  );
}

/** Whose change the change of a row without an id of its own is. */
function ownerOf(table: string): { kind: ChangeKind; column: string } | undefined {
  const policy = /^(.*_policy)_ref$/.exec(table)?.[1];
  if (policy !== undefined) return { kind: policy as ChangeKind, column: "policy_id" };
  if (table === "service_config") return { kind: "service", column: "service_id" };
  if (table === "router_config") return { kind: "router", column: "router_id" };
  if (table === "identity_service_config") return { kind: table, column: "identity_id" };
  return undefined;
}
