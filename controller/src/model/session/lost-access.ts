import { type RawBuilder, type SqlBool, sql } from "kysely";
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import type { PolicyBefore } from "../../store/changes/logged-write.ts";
import type { ModelStore } from "../context.ts";
import { selectedBy } from "../policy/selection-sql.ts";
import { removeTerminators } from "./session-removal.ts";
import { UNAUTHORIZED } from "./sessions.ts";

/** More conditions than this in one query cost more than looking at every session. */
const MAX_CONDITIONS = 50;

/**
 * Which sessions may have lost their access by these changes: a condition on the session `s`, its identity `i` and its service `v`.
 * A changed identity or service concerns its own sessions, a changed policy those that it granted before. Undefined when none can have lost it.
 */
export function lostAccess(rows: readonly ChangeRow[]): RawBuilder<SqlBool> | undefined {
  const changed = rows.filter((row) => row.op !== "create");
  const keys = (kind: string) => [...new Set(changed.filter((row) => row.kind === kind).map((row) => row.key))];
  const identities = keys("identity");
  const services = keys("service");
  const policies = changed.flatMap((row) => (row.kind === "service_policy" ? [row.before as PolicyBefore | null] : []));
  const conditions: RawBuilder<SqlBool>[] = [];
  if (identities.length > 0) conditions.push(sql<SqlBool>`i.id = ANY (${identities}::text[])`);
  if (services.length > 0) conditions.push(sql<SqlBool>`v.id = ANY (${services}::text[])`);
  for (const before of policies) {
    const identity = before?.sides.identity;
    const service = before?.sides.service;
    // Without its former selectors a policy has only lost an entity, whose sessions went with it.
    if (before === null || identity === undefined || service === undefined) continue;
    const { semantic } = before;
    const byIdentity = selectedBy({ selector: identity, semantic }, "i");
    conditions.push(
      sql<SqlBool>`(s.type = ${before.type} AND ${byIdentity} AND ${selectedBy({ selector: service, semantic }, "v")})`,
    );
  }
  if (conditions.length === 0) return undefined;
  if (conditions.length > MAX_CONDITIONS) return sql<SqlBool>`true`;
  return sql<SqlBool>`(${sql.join(conditions, sql` OR `)})`;
}

/**
 * Deletes the terminators of applications and tunnelers whose host may not host their service any more, by the rule for sessions of type Bind. Answers how
 * many.
 * @param among where to look: a condition on `s` (the terminator in the role of a Bind session), the host `i` and the service `v`
 */
export async function removeUnhosted(store: ModelStore, among: RawBuilder<SqlBool>): Promise<number> {
  const { rows } = await sql<{ id: string }>`
    SELECT s.id FROM (SELECT id, 'Bind'::text AS type, host_id AS identity_id, service_id FROM terminator
        WHERE host_id <> '' AND binding IN ('edge', 'tunnel')) s
      JOIN identity i ON i.id = s.identity_id JOIN service v ON v.id = s.service_id
    WHERE ${among} AND ${UNAUTHORIZED}`.execute(store.db);
  if (rows.length === 0) return 0;
  const ids = rows.map((row) => row.id);
  // Asked again: a policy may allow it since, and a host does not announce its terminator a second time.
  const isUnhosted = sql<SqlBool>`t.id = ANY (${ids}::text[]) AND EXISTS (
    SELECT 1 FROM (SELECT 'Bind'::text AS type) s, identity i, service v
    WHERE i.id = t.host_id AND v.id = t.service_id AND ${UNAUTHORIZED})`;
  const gone = await store.transaction((trx) => removeTerminators(trx, isUnhosted));
  return gone.length;
}
