import { type RawBuilder, type SqlBool, sql } from "kysely";
import type { Db, ModelStore } from "../context.ts";
import { removeTerminators } from "./session-removal.ts";
import { UNAUTHORIZED } from "./sessions.ts";

/**
 * Deletes the terminators of applications and tunnelers whose host may not host their service any more, by the rule for sessions of type Bind. Answers how many.
 * @param among where to look: a condition on `s` (a session of type Bind, as it were), the host `i` and the service `v`
 */
export async function removeUnhosted(store: ModelStore, among: RawBuilder<SqlBool>): Promise<number> {
  const ids = await unhosted(store.db, among);
  if (ids.length === 0) return 0;
  // Asked again: a policy may allow it since, and a host does not announce its terminator a second time.
  const isUnhosted = sql<SqlBool>`t.id = ANY (${ids}::text[]) AND EXISTS (
    SELECT 1 FROM (SELECT 'Bind'::text AS type) s, identity i, service v
    WHERE i.id = t.host_id AND v.id = t.service_id AND ${UNAUTHORIZED})`;
  const gone = await store.transaction((trx) => removeTerminators(trx, isUnhosted));
  return gone.length;
}

async function unhosted(db: Db, among: RawBuilder<SqlBool>): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    SELECT s.id FROM (SELECT id, 'Bind'::text AS type, host_id AS identity_id, service_id FROM terminator
        WHERE host_id <> '' AND binding IN ('edge', 'tunnel')) s
      JOIN identity i ON i.id = s.identity_id JOIN service v ON v.id = s.service_id
    WHERE ${among} AND ${UNAUTHORIZED}`.execute(db);
  return rows.map((row) => row.id);
}
