/** What goes when its time is over, beside sessions: in batches, each in a short statement, so that nobody waits for it. */
import { type RawBuilder, sql } from "kysely";
import type { ModelContext } from "./context.ts";

const BATCH = 500;
const SECOND = 1_000;
/** Session certificates stay a day longer than they are good: for whoever looks why a connection was refused. */
const CERTIFICATE_GRACE_S = 86_400;

export interface Expiry {
  /** For logs and figures. */
  readonly what: string;
  /** Removes everything whose time is over. @returns how many */
  sweep(signal: AbortSignal): Promise<number>;
}

export function expiries({ store, settings, now }: ModelContext): Expiry[] {
  const before = (seconds: number) => new Date(now().getTime() - seconds * SECOND);
  return [
    {
      what: "enrollments",
      sweep: (signal) =>
        inBatches(signal, () => {
          const over = before(settings.expiredEnrollmentsMs / SECOND);
          return sql`
            WITH gone AS (
              DELETE FROM enrollment WHERE id IN (
                SELECT id FROM enrollment WHERE expires_at < ${over} LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)
              RETURNING id, identity_id, router_id),
            logged AS (INSERT INTO change_log (kind, key, op) SELECT 'enrollment', id, 'delete' FROM gone)
            SELECT count(*)::int AS count FROM gone`;
        }),
    },
    {
      what: "session certificates",
      sweep: (signal) =>
        inBatches(
          signal,
          () => sql`
            WITH gone AS (
              DELETE FROM api_session_certificate WHERE id IN (
                SELECT id FROM api_session_certificate WHERE valid_to < ${before(CERTIFICATE_GRACE_S)} LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)
              RETURNING id, api_session_id),
            logged AS (
              INSERT INTO change_log (kind, key, op, before) SELECT 'api_session_certificate', id, 'delete',
                jsonb_build_object('apiSessionId', api_session_id) FROM gone),
            changed AS (
              INSERT INTO change_log (kind, key, op) SELECT DISTINCT 'api_session', api_session_id, 'update' FROM gone)
            SELECT count(*)::int AS count FROM gone`,
        ),
    },
  ];

  async function inBatches(signal: AbortSignal, statement: () => RawBuilder<unknown>): Promise<number> {
    for (let total = 0; ; ) {
      signal.throwIfAborted();
      const { rows } = await store.transaction((trx) => (statement() as RawBuilder<{ count: number }>).execute(trx));
      const removed = rows[0]?.count ?? 0;
      total += removed;
      if (removed < BATCH) return total;
    }
  }
}
