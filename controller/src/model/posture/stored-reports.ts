import { SerialQueue } from "@sallyport/async";
import type { DevicePosture } from "@sallyport/posture";
import { sql } from "kysely";
import type { ModelContext } from "../context.ts";
import { type Expiry, untilNotFull } from "../expiry.ts";
import type { PostureReports } from "./posture-reports.ts";

const BATCH = 500;
const DAY_MS = 86_400_000;
/** Reports of identities that had no API session for so long go. */
const KEPT_MS = 7 * DAY_MS;

/**
 * The copy of device reports in the store, for the next start: clients such as the Go SDK send a value only when it differs from the one they sent last, so a
 * controller that forgot would refuse them until something changes. Reports only note what is to be written; {@link flush} writes it. Source:
 * docs/protocol/posture.md, "Reports".
 */
export class StoredReports {
  readonly #ctx: ModelContext;
  readonly #reports: PostureReports;
  /** The last of what writes: one at a time, so that the newest report is written last. */
  readonly #writes = new SerialQueue();

  constructor(ctx: ModelContext, reports: PostureReports) {
    this.#ctx = ctx;
    this.#reports = reports;
  }

  /** Notes which identities have reports in the store. */
  async find(): Promise<void> {
    const { rows } = await sql<{ identity_id: string; characters: number }>`
      SELECT identity_id, length(report::text) AS characters FROM posture_report ORDER BY seen_at`.execute(
      this.#ctx.store.db,
    );
    for (const row of rows) this.#reports.noteStored(row.identity_id, row.characters);
  }

  /** Reads the reports of those of the identities of which the store alone has some. */
  async read(identityIds: readonly string[]): Promise<void> {
    if (!identityIds.some((id) => this.#reports.isUnread(id))) return;
    const unread = [...new Set(identityIds.filter((id) => this.#reports.isUnread(id)))];
    for (let start = 0; start < unread.length; start += BATCH) {
      const ids = unread.slice(start, start + BATCH);
      const { rows } = await sql<{ identity_id: string; report: DevicePosture }>`
        SELECT identity_id, report FROM posture_report WHERE identity_id = ANY (${ids}::text[])`.execute(
        this.#ctx.store.db,
      );
      const found = new Map(rows.map((row) => [row.identity_id, row.report]));
      for (const id of ids) this.#reports.takeStored(id, found.get(id));
    }
  }

  /** Writes what was reported or forgotten since the last time, in batches; what fails is written the next time. */
  flush(): Promise<void> {
    return this.#writes.run(async () => {
      for (let isMore = this.#reports.hasUnwritten; isMore; ) {
        const unwritten = this.#reports.takeUnwritten(BATCH);
        isMore = unwritten.length === BATCH;
        const kept = unwritten.flatMap(({ identityId, device }) => (device ? [{ identityId, device }] : []));
        const gone = unwritten.filter(({ device }) => device === undefined).map(({ identityId }) => identityId);
        const ids = kept.map(({ identityId }) => identityId);
        const texts = kept.map(({ device }) => JSON.stringify(device));
        try {
          // The join leaves out identities that were deleted meanwhile.
          await sql`
            WITH gone AS (DELETE FROM posture_report WHERE identity_id = ANY (${gone}::text[]))
            INSERT INTO posture_report (identity_id, report, seen_at)
            SELECT i.id, n.report::json, ${this.#ctx.now()}::timestamptz
            FROM unnest(${ids}::text[], ${texts}::text[]) AS n (id, report) JOIN identity i ON i.id = n.id
            ON CONFLICT (identity_id) DO UPDATE SET report = excluded.report, seen_at = excluded.seen_at`.execute(
            this.#ctx.store.db,
          );
        } catch (error) {
          this.#reports.notWritten(unwritten);
          throw error;
        }
      }
    });
  }

  /** Reports of identities that had no API session for seven days (give or take one): a device that comes back later counts as one that never reported. */
  get expiry(): Expiry {
    return { what: "posture reports", sweep: (signal) => this.#sweep(signal) };
  }

  async #sweep(signal: AbortSignal): Promise<number> {
    const now = this.#ctx.now().getTime();
    const hasSession = sql`EXISTS (SELECT FROM api_session a WHERE a.identity_id = p.identity_id)`;
    const inBatches = (batch: () => Promise<number>) => untilNotFull(BATCH, signal, () => this.#writes.run(batch));
    await inBatches(async () => {
      const { numAffectedRows } = await sql`
        UPDATE posture_report SET seen_at = ${new Date(now)} WHERE identity_id IN (
          SELECT identity_id FROM posture_report p WHERE seen_at < ${new Date(now - DAY_MS)} AND ${hasSession}
          LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)`.execute(this.#ctx.store.db);
      return Number(numAffectedRows ?? 0);
    });
    return await inBatches(async () => {
      const { rows } = await sql<{ identity_id: string }>`
        DELETE FROM posture_report WHERE identity_id IN (
          SELECT identity_id FROM posture_report p WHERE seen_at < ${new Date(now - KEPT_MS)} AND NOT ${hasSession}
          LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)
        RETURNING identity_id`.execute(this.#ctx.store.db);
      this.#reports.removedFromStore(rows.map((row) => row.identity_id));
      return rows.length;
    });
  }
}
