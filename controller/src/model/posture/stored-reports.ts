import { randomUUID } from "node:crypto";
import { SerialQueue } from "@sallyport/async";
import { type DevicePosture, mergedPosture, type SessionPosture, saysTheSame } from "@sallyport/posture";
import { type Kysely, sql } from "kysely";
import { appendChange } from "../../store/changes/change-log.ts";
import { loggedWrite, type PostureBefore } from "../../store/changes/logged-write.ts";
import type { Database } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { type Expiry, untilNotFull } from "../expiry.ts";
import type { PostureReports, Unwritten } from "./posture-reports.ts";

const BATCH = 500;
const DAY_MS = 86_400_000;
/** Reports of identities that had no API session for so long go. */
const KEPT_MS = 7 * DAY_MS;
/** Key of an advisory lock, in two halves: one controller at a time reads what is stored and writes it again. */
const WRITING = [0x5a11_0003, 2] as const;

/**
 * What was reported, in the store: for the next start, because clients such as the Go SDK send a value only when it differs from the one they sent last, and for
 * other controllers of the network. Reports only note what is to be written; {@link flush} writes it, together with what another controller has written
 * meanwhile. What differs from before stands in the change log. Source: docs/protocol/posture.md, "Reports".
 */
export class StoredReports {
  readonly #ctx: ModelContext;
  readonly #reports: PostureReports;
  /** Names this process in the change log. */
  readonly #by = randomUUID();
  /** The last of what writes: one at a time, so that the newest report is written last. */
  readonly #writes = new SerialQueue();

  constructor(ctx: ModelContext, reports: PostureReports) {
    this.#ctx = ctx;
    this.#reports = reports;
  }

  /** For `before` of rows of the change log: readers of this process know already. */
  get before(): Record<string, unknown> & PostureBefore {
    return { by: this.#by };
  }

  isOwn(before: Record<string, unknown> | null): boolean {
    return before?.by === this.#by;
  }

  /** Notes which identities have reports in the store, and reads what it holds of sessions. */
  async find(): Promise<void> {
    const { db } = this.#ctx.store;
    const sessions = await sql<StoredSession>`${SESSIONS}
      WHERE mfa_passed_at IS NOT NULL OR woken_at IS NOT NULL OR unlocked_at IS NOT NULL`.execute(db);
    for (const row of sessions.rows) this.#takeSession(row);
    const { rows } = await sql<{ identity_id: string; characters: number }>`
      SELECT identity_id, length(report::text) AS characters FROM posture_report ORDER BY seen_at`.execute(db);
    for (const row of rows) this.#reports.noteStored(row.identity_id, row.characters);
  }

  /** Reads what is stored of those of the identities of which the store may hold something newer than memory. */
  async read(identityIds: readonly string[]): Promise<void> {
    if (!identityIds.some((id) => this.#reports.isUnread(id))) return;
    const { db } = this.#ctx.store;
    const unread = [...new Set(identityIds.filter((id) => this.#reports.isUnread(id)))];
    for (let start = 0; start < unread.length; start += BATCH) {
      const ids = unread.slice(start, start + BATCH);
      const sessions = await sql<StoredSession>`${SESSIONS} WHERE identity_id = ANY (${ids}::text[])`.execute(db);
      const found = await stored(db, ids);
      for (const row of sessions.rows) this.#takeSession(row);
      for (const id of ids) this.#reports.takeStored(id, found.get(id));
    }
  }

  /** Writes what was reported or forgotten since the last time, in batches; what fails is written the next time. */
  flush(): Promise<void> {
    return this.#writes.run(async () => {
      for (let isMore = this.#reports.hasUnwritten; isMore; ) {
        const unwritten = this.#reports.takeUnwritten(BATCH);
        isMore = unwritten.length === BATCH;
        try {
          for (const [id, merged] of await this.#write(unwritten)) this.#reports.takeMerged(id, merged);
        } catch (error) {
          this.#reports.notWritten(unwritten);
          throw error;
        }
      }
    });
  }

  /** The device of a session woke up, or was unlocked; later times stay. */
  async putEvents(identityId: string, apiSessionId: string, { wokenAt, unlockedAt }: SessionPosture): Promise<void> {
    const [woken, unlocked] = [wokenAt, unlockedAt].map((at) => (at === undefined ? null : new Date(at)));
    await this.#ctx.store.transaction(async (trx) => {
      await sql`UPDATE api_session SET woken_at = greatest(woken_at, ${woken}::timestamptz),
        unlocked_at = greatest(unlocked_at, ${unlocked}::timestamptz) WHERE id = ${apiSessionId}`.execute(trx);
      await appendChange(trx, { kind: "posture_report", key: identityId, op: "update", before: this.before });
    });
  }

  /** Answers the reports that were merged with something newer. */
  async #write(unwritten: readonly Unwritten[]): Promise<ReadonlyMap<string, DevicePosture>> {
    return this.#ctx.store.transaction(async (trx) => {
      await sql`SELECT pg_advisory_xact_lock(${WRITING[0]}::int, ${WRITING[1]}::int)`.execute(trx);
      const before = await stored(
        trx,
        unwritten.map(({ identityId }) => identityId),
      );
      const merged = new Map<string, DevicePosture>();
      const changed = new Set<string>();
      const gone: string[] = [];
      const kept: { readonly id: string; readonly device: DevicePosture }[] = [];
      for (const { identityId: id, device: own } of unwritten) {
        const old = before.get(id);
        if (own === undefined) {
          gone.push(id);
          if (old !== undefined) changed.add(id);
          continue;
        }
        const device = old === undefined ? own : mergedPosture(old, own);
        if (!saysTheSame(device, own)) merged.set(id, device);
        if (old === undefined || !saysTheSame(device, old)) changed.add(id);
        kept.push({ id, device });
      }
      const parts = sql`WITH gone AS (DELETE FROM posture_report WHERE identity_id = ANY (${gone}::text[])),
        put AS (
          INSERT INTO posture_report (identity_id, report, seen_at)
          SELECT i.id, n.report::json, ${this.#ctx.now()}::timestamptz
          FROM unnest(${kept.map(({ id }) => id)}::text[], ${kept.map(({ device }) => JSON.stringify(device))}::text[]) AS n (id, report)
            JOIN identity i ON i.id = n.id
          ON CONFLICT (identity_id) DO UPDATE SET report = excluded.report, seen_at = excluded.seen_at RETURNING identity_id)`;
      // The join leaves out identities that were deleted meanwhile.
      if (changed.size === 0) await sql`${parts} SELECT`.execute(trx);
      else await this.#logged(trx, sql`${parts}, changed AS (SELECT unnest(${[...changed]}::text[]) AS identity_id)`);
      return merged;
    });
  }

  /** @param parts whose `changed` has the identities of which something else is stored than before */
  async #logged(trx: Db, parts: ReturnType<typeof sql>): Promise<string[]> {
    const rows = await loggedWrite(
      trx,
      sql`${parts}, by_us AS (SELECT identity_id, ${this.#by}::text AS by FROM changed)`,
      {
        changes: [{ kind: "posture_report", op: "update", of: "by_us", key: "identity_id", before: { by: "by" } }],
        answer: sql<{ identity_id: string }>`SELECT identity_id FROM by_us`,
      },
    );
    return rows.map((row) => row.identity_id);
  }

  #takeSession({ id, identity_id, mfa_passed_at, woken_at, unlocked_at }: StoredSession): void {
    this.#reports.takeStoredSession(identity_id, id, {
      ...(mfa_passed_at && { mfaPassedAt: mfa_passed_at.getTime() }),
      ...(woken_at && { wokenAt: woken_at.getTime() }),
      ...(unlocked_at && { unlockedAt: unlocked_at.getTime() }),
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
      const gone = await this.#ctx.store.transaction((trx) =>
        this.#logged(
          trx,
          sql`WITH changed AS (
            DELETE FROM posture_report WHERE identity_id IN (
              SELECT identity_id FROM posture_report p WHERE seen_at < ${new Date(now - KEPT_MS)} AND NOT ${hasSession}
              LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)
            RETURNING identity_id)`,
        ),
      );
      this.#reports.removedFromStore(gone);
      return gone.length;
    });
  }
}

const SESSIONS = sql`SELECT id, identity_id, mfa_passed_at, woken_at, unlocked_at FROM api_session`;

interface StoredSession {
  readonly id: string;
  readonly identity_id: string;
  readonly mfa_passed_at: Date | null;
  readonly woken_at: Date | null;
  readonly unlocked_at: Date | null;
}

async function stored(db: Kysely<Database> | Db, ids: readonly string[]): Promise<ReadonlyMap<string, DevicePosture>> {
  const { rows } = await sql<{ identity_id: string; report: DevicePosture }>`
    SELECT identity_id, report FROM posture_report WHERE identity_id = ANY (${ids}::text[])`.execute(db);
  return new Map(rows.map((row) => [row.identity_id, row.report]));
}
