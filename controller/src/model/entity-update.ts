import { LoggedStatement } from "../store/logged-write.ts";
import type { Db } from "./context.ts";
import type { EntityTable } from "./entity.ts";

/** By table and columns: as many as there are ways to change an entity, a few in practice. */
const statements = new Map<string, LoggedStatement<{ id: string }>>();

/**
 * Sets columns of one row and records the change with the row's role attributes before it, in one statement: no transaction around it, one way to the
 * database and back. Columns whose value is undefined stay as they are.
 *
 * @param values by column; names from the program's text only, never from a caller @returns false when there is no such row
 */
export async function updateAttributed(
  db: Db,
  table: Extract<EntityTable, "identity" | "service">,
  id: string,
  values: Readonly<Record<string, unknown>>,
): Promise<boolean> {
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
  const rows = await statement.rows(db, [id, ...columns.map((column) => values[column])]);
  return rows.length > 0;
}
