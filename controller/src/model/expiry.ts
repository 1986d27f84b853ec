/** Removes rows whose time is over, but for sessions: in batches, each in a short statement, so that no request waits for it. */

import { type RawBuilder, sql } from "kysely";
import { type LoggedRows, loggedWrite } from "../store/changes/logged-write.ts";
import type { ModelContext, ModelStore } from "./context.ts";

/** Rows that go in one statement. */
export const EXPIRY_BATCH = 500;
const SECOND = 1_000;
/** Session certificates stay a day longer than they are valid, so that an administrator can find out why a connection was refused. */
const CERTIFICATE_GRACE_S = 86_400;

export interface Expiry {
  /** For logs and figures. */
  readonly what: string;
  /** Removes everything whose time is over. @returns how many */
  sweep(signal: AbortSignal): Promise<number>;
}

/** A statement that removes at most {@link EXPIRY_BATCH} rows: its part `gone` returns them. Without changes it concerns no reader of the log. */
interface BatchRemoval {
  readonly parts: RawBuilder<unknown>;
  readonly changes?: readonly [LoggedRows, ...LoggedRows[]];
}

export function expiries({ store, settings, tokens, now }: ModelContext): Expiry[] {
  const before = (seconds: number) => new Date(now().getTime() - seconds * SECOND);
  return [
    {
      what: "enrollments",
      sweep: (signal) =>
        inBatches(store, signal, () => {
          const over = before(settings.expiredEnrollmentsMs / SECOND);
          return {
            parts: sql`WITH gone AS (
              DELETE FROM enrollment WHERE id IN (
                SELECT id FROM enrollment WHERE expires_at < ${over} LIMIT ${EXPIRY_BATCH} FOR UPDATE SKIP LOCKED)
              RETURNING id)`,
            changes: [{ kind: "enrollment", op: "delete", of: "gone" }],
          };
        }),
    },
    {
      what: "session certificates",
      sweep: (signal) =>
        inBatches(store, signal, () => ({
          parts: sql`WITH gone AS (
            DELETE FROM api_session_certificate WHERE id IN (
              SELECT id FROM api_session_certificate WHERE valid_to < ${before(CERTIFICATE_GRACE_S)} LIMIT ${EXPIRY_BATCH} FOR UPDATE SKIP LOCKED)
            RETURNING id, api_session_id)`,
          changes: [
            { kind: "api_session_certificate", op: "delete", of: "gone", before: { apiSessionId: "api_session_id" } },
            { kind: "api_session", op: "update", of: "gone", key: "api_session_id", isDistinct: true },
          ],
        })),
    },
    {
      what: "logins in progress",
      sweep: (signal) =>
        inBatches(store, signal, () => ({
          parts: sql`WITH gone AS (
            DELETE FROM oidc_login WHERE id IN (
              SELECT id FROM oidc_login WHERE expires_at <= ${now()} LIMIT ${EXPIRY_BATCH} FOR UPDATE SKIP LOCKED)
            RETURNING id)`,
        })),
    },
    {
      what: "failed attempts",
      sweep: (signal) =>
        inBatches(store, signal, () => ({
          // The table is small: it has what failed lately, and one row for each password and each enrollment of one-time codes.
          parts: sql`WITH gone AS (
            DELETE FROM failed_attempt WHERE key IN (
              SELECT key FROM failed_attempt WHERE expires_at <= now() LIMIT ${EXPIRY_BATCH} FOR UPDATE SKIP LOCKED)
            RETURNING key)`,
        })),
    },
    { what: "token keys", sweep: () => tokens.keys.sweep() },
  ];
}

/** Removes batch after batch until one is not full. @returns how many rows went */
export function inBatches(store: ModelStore, signal: AbortSignal, removal: () => BatchRemoval): Promise<number> {
  return untilNotFull(EXPIRY_BATCH, signal, async () => {
    const { parts, changes } = removal();
    const answer = sql<{ count: number }>`SELECT count(*)::int AS count FROM gone`;
    const rows = await store.transaction(async (trx) =>
      changes === undefined
        ? (await sql<{ count: number }>`${parts} ${answer}`.execute(trx)).rows
        : loggedWrite(trx, parts, { changes, answer }),
    );
    return rows[0]?.count ?? 0;
  });
}

/** Works through batch after batch of at most `size` rows until one is not full. @returns how many rows there were */
export async function untilNotFull(
  size: number,
  signal: AbortSignal | undefined,
  batch: () => Promise<number>,
): Promise<number> {
  for (let total = 0; ; ) {
    signal?.throwIfAborted();
    const count = await batch();
    total += count;
    if (count < size) return total;
  }
}
