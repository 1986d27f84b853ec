import { Statement } from "../../store/driver/statement.ts";
import { likely } from "../../store/id-array.ts";
import type { Db } from "../context.ts";

/** What is shown with an API session of its identity, and of its authenticator, which may be gone. */
export interface ShownWithApiSession {
  readonly id: string;
  readonly identity_name: string;
  readonly is_issued_by_network: boolean | null;
  readonly is_extend_requested: boolean | null;
  readonly is_key_roll_requested: boolean | null;
}

const SHOWN = new Statement<ShownWithApiSession>(`
  SELECT a.id, i.name AS identity_name, c.is_issued_by_network, c.is_extend_requested, c.is_key_roll_requested
  FROM api_session a JOIN identity i ON i.id = a.identity_id LEFT JOIN authenticator c ON c.id = a.authenticator_id
  WHERE a.id = ANY ($1::text[])`);

/** By the ids of the API sessions, read in one statement; those that are gone are left out. */
export async function shownWithApiSessions(
  db: Db,
  ids: readonly string[],
): Promise<ReadonlyMap<string, ShownWithApiSession>> {
  if (ids.length === 0) return new Map();
  const rows = await SHOWN.rows(db, [likely(ids)]);
  return new Map(rows.map((row) => [row.id, row]));
}
