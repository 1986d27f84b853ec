import { type RawBuilder, type SqlBool, sql } from "kysely";
import type { ChangeRow } from "../../store/change-log.ts";
import type { PolicyBefore } from "../../store/logged-changes.ts";
import { selectedBy } from "./selection-sql.ts";

/** More conditions than this in one query cost more than looking at every session. */
const MAX_CONDITIONS = 50;

/**
 * Which sessions may have lost their access by these changes: a condition on the session `s`, its identity `i` and its service `v`.
 * A changed identity or service concerns its own sessions, a changed policy those that it granted before.
 *
 * @returns undefined when none can have
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
