/** What the reads and writes of all entities share. */
import { fieldError, notFound } from "@sallyport/api";
import { type Selectable, sql, type Updateable } from "kysely";
import { appendChange } from "../store/changes/change-log.ts";
import { LoggedStatement } from "../store/changes/logged-write.ts";
import type { Database } from "../store/schema.ts";
import type { Db } from "./context.ts";

/** How error texts name what a table holds. */
export const ENTITY_NAMES = {
  identity: "identity",
  router: "router",
  service: "service",
  config: "config",
  config_type: "configType",
  service_policy: "servicePolicy",
  edge_router_policy: "edgeRouterPolicy",
  service_edge_router_policy: "serviceEdgeRouterPolicy",
  terminator: "terminator",
  auth_policy: "authPolicy",
  authenticator: "authenticator",
  enrollment: "enrollment",
  api_session: "apiSession",
  session: "session",
  posture_check: "postureCheck",
  ca: "ca",
  ext_jwt_signer: "externalJwtSigner",
} as const;

/** Tables of entities with an id. */
export type EntityTable = keyof typeof ENTITY_NAMES;

/** A value for a JSON column; an absent one stays absent. */
export function json(value: object): string;
export function json(value: object | undefined): string | undefined;
export function json(value: object | undefined): string | undefined {
  return value === undefined ? undefined : JSON.stringify(value);
}

/** Longest text of a column with an index. PostgreSQL takes keys of up to 2,704 bytes, and a character has up to four. */
export const MAX_INDEXED_CHARACTERS = 512;

/** Can a column with an index hold the text? Names of those that enroll also get a number. */
export function isIndexable(text: string): boolean {
  return text.length <= MAX_INDEXED_CHARACTERS || [...text].length <= MAX_INDEXED_CHARACTERS;
}

/** @throws ApiError 400 on the field when the text is longer than {@link MAX_INDEXED_CHARACTERS} */
export function requireIndexed(field: string, text: string | null | undefined): void {
  if (!text || isIndexable(text)) return;
  throw fieldError(field, `${field} may have at most ${MAX_INDEXED_CHARACTERS} characters`, text);
}

/** @throws ApiError 400 on field `name` when it is empty or too long */
export function requireName(name: string): void {
  if (name.trim() === "") throw fieldError("name", "name is required", name);
  requireIndexed("name", name);
}

/** @throws ApiError 404 */
export function found<T>(row: T | undefined, table: EntityTable, id: string): T {
  if (row === undefined) throw notFound(ENTITY_NAMES[table], id);
  return row;
}

type EntityRow<T extends EntityTable> = Selectable<Database[T]>;
type Column<T extends EntityTable> = keyof EntityRow<T> & string;

/** The row of an entity: the columns that are named, or all of them. */
export async function findEntity<T extends EntityTable, C extends Column<T> = Column<T>>(
  db: Db,
  table: T,
  id: string,
  columns?: readonly C[],
): Promise<Pick<EntityRow<T>, C> | undefined> {
  const { rows } = await selection(table, id, columns).execute(db);
  return rows[0];
}

/** As {@link findEntity}. @throws ApiError 404 */
export async function getEntity<T extends EntityTable, C extends Column<T> = Column<T>>(
  db: Db,
  table: T,
  id: string,
  columns?: readonly C[],
): Promise<Pick<EntityRow<T>, C>> {
  return found(await findEntity(db, table, id, columns), table, id);
}

/** As {@link findEntity}, held until the transaction ends. @throws ApiError 404 */
export async function lockEntity<T extends EntityTable, C extends Column<T> = Column<T>>(
  trx: Db,
  table: T,
  id: string,
  columns?: readonly C[],
): Promise<Pick<EntityRow<T>, C>> {
  const { rows } = await sql<Pick<EntityRow<T>, C>>`${selection(table, id, columns)} FOR UPDATE`.execute(trx);
  return found(rows[0], table, id);
}

/** @throws ApiError 404 unless the entity exists */
export async function requireEntity(db: Db, table: EntityTable, id: string): Promise<void> {
  const { rows } = await sql`SELECT 1 FROM ${sql.table(table)} WHERE id = ${id}`.execute(db);
  found(rows[0], table, id);
}

/** As {@link findEntity}; the row cannot be deleted until the transaction ends. */
export async function keepEntity<T extends EntityTable, C extends Column<T> = Column<T>>(
  trx: Db,
  table: T,
  id: string,
  columns?: readonly C[],
): Promise<Pick<EntityRow<T>, C> | undefined> {
  const { rows } = await sql<Pick<EntityRow<T>, C>>`${selection(table, id, columns)} FOR KEY SHARE`.execute(trx);
  return rows[0];
}

function selection<T extends EntityTable, C extends Column<T>>(table: T, id: string, columns?: readonly C[]) {
  const wanted = columns === undefined ? sql`*` : sql.join(columns.map((column) => sql.ref(column)));
  return sql<Pick<EntityRow<T>, C>>`SELECT ${wanted} FROM ${sql.table(table)} WHERE id = ${id}`;
}

/** Sets columns of a row; those whose value is undefined stay as they are. @returns whether the row exists */
export async function updateEntity<T extends EntityTable>(
  trx: Db,
  table: T,
  id: string,
  values: Updateable<Database[T]>,
): Promise<boolean> {
  // Kysely cannot follow the type parameter: one table stands for all.
  const query = trx.updateTable(table as "config").set(values as Updateable<Database["config"]>);
  const { numUpdatedRows } = await query.where("id", "=", id).executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Deletes the row of an entity and records it. @throws ApiError 404 */
export async function deleteEntity(trx: Db, table: EntityTable, id: string): Promise<void> {
  const { numAffectedRows } = await sql`DELETE FROM ${sql.table(table)} WHERE id = ${id}`.execute(trx);
  found(numAffectedRows || undefined, table, id);
  await appendChange(trx, { kind: table, key: id, op: "delete" });
}

/** By its id, or else by its name. */
export async function findByIdOrName<T extends "identity" | "service">(
  db: Db,
  table: T,
  idOrName: string,
): Promise<Selectable<Database[T]> | undefined> {
  const { rows } = await sql<Selectable<Database[T]>>`SELECT * FROM ${sql.table(table)}
    WHERE id = ${idOrName} OR name = ${idOrName} ORDER BY id = ${idOrName} DESC`.execute(db);
  return rows[0];
}

/** The names of entities by id; ids that are unknown are left out. */
export async function namesOf(db: Db, table: EntityTable, ids: Iterable<string>): Promise<ReadonlyMap<string, string>> {
  const wanted = [...new Set(ids)];
  if (wanted.length === 0) return new Map();
  const { rows } = await sql<{ id: string; name: string }>`
    SELECT id, name FROM ${sql.table(table)} WHERE id = ANY (${wanted}::text[])`.execute(db);
  return new Map(rows.map((row) => [row.id, row.name]));
}

/** By table and columns: as many as there are ways to change an entity, a few in practice. */
const statements = new Map<string, LoggedStatement<{ id: string }>>();

/**
 * Sets columns of one row and records the change with the row's role attributes before it, in one statement: no transaction around it, one way to the
 * database and back. Columns whose value is undefined stay as they are.
 *
 * @param values by column; names from the program's text only, never from a caller
 * @throws ApiError 404
 */
export async function updateAttributed(
  db: Db,
  table: Extract<EntityTable, "identity" | "service">,
  id: string,
  values: Readonly<Record<string, unknown>>,
): Promise<void> {
  const columns = Object.keys(values).filter((column) => values[column] !== undefined);
  const name = `${table} ${columns.join()}`;
  let statement = statements.get(name);
  if (statement === undefined) {
    const set = columns.map((column, index) => `${column} = $${index + 2}`);
    // The lock waits for other writers, and what it returns is the newest state of the row, which the update then goes on from.
    statement = new LoggedStatement(
      `WITH old AS (SELECT id, attrs FROM ${table} WHERE id = $1 FOR UPDATE),
        done AS (UPDATE ${table} e SET ${set.join()} FROM old WHERE e.id = old.id)`,
      { changes: [{ kind: table, op: "update", of: "old", before: { attrs: "attrs" } }], answer: "SELECT id FROM old" },
    );
    statements.set(name, statement);
  }
  found(await statement.first(db, [id, ...columns.map((column) => values[column])]), table, id);
}
