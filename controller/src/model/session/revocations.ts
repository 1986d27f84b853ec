import { notFound } from "@sallyport/api";
import { type Selectable, sql } from "kysely";
import { loggedWrite, REVOCATION_BEFORE } from "../../store/changes/logged-write.ts";
import type { Tags } from "../../store/schema.ts";
import type { RevocationTable, RevocationType } from "../../store/session-tables.ts";
import type { Db, ModelContext } from "../context.ts";
import { EXPIRY_BATCH, inBatches } from "../expiry.ts";
import { endApiSessions, REVOKED_AGAIN } from "./session-removal.ts";

export type RevocationRow = Selectable<RevocationTable>;

interface NewRevocation {
  readonly id: string;
  readonly type: RevocationType;
  readonly until?: Date;
  /** Added to those that it has, if it is there. */
  readonly tags?: Tags;
}

/** Routers hold every revocation in memory. Beyond so many, those of an identity's sessions become one of the identity. */
export const MAX_REVOCATIONS = 20_000;

/**
 * Tokens that verifiers without the rows of sessions must refuse before their end: routers get them with the data model, controllers hold those of single
 * tokens in memory. Sessions revoke their own when they end (`session-removal.ts`).
 */
export class Revocations {
  readonly #ctx: ModelContext;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  /**
   * Revokes a token (`JTI`), the tokens of an API session, which ends, or all that an identity has until now: its sessions by OIDC end.
   * @param revocation `until`: when the tokens end anyway; the longest life of a token when absent
   * @throws ApiError 404 for an identity that does not exist
   */
  async create({ id, type, until, tags = {} }: NewRevocation): Promise<void> {
    const { store, settings, now } = this.#ctx;
    const { accessMs, refreshMs } = settings.oidc;
    const expiresAt = until ?? new Date(now().getTime() + Math.max(accessMs, refreshMs));
    // Sessions first, then what is revoked, as wherever sessions end: another order could end in a deadlock with them.
    await store.transaction(async (trx) => {
      if (type === "API_SESSION") {
        await endApiSessions(trx, sql`a.id = ${id} AND a.kind = 'oidc'`, { isRevoked: true });
      } else if (type === "IDENTITY") {
        const { rows } = await sql`SELECT FROM identity WHERE id = ${id} FOR UPDATE`.execute(trx);
        if (rows.length === 0) throw notFound("identity", id);
        await endApiSessions(trx, sql`a.identity_id = ${id} AND a.kind = 'oidc'`, { isRevoked: true });
      }
      const issuedBefore = type === "IDENTITY" ? { issuedBefore: nextSecond(now()) } : {};
      await this.#put(trx, { id, type, expiresAt, tags, ...issuedBefore });
    });
  }

  async get(id: string): Promise<RevocationRow> {
    const row = await this.#ctx.store.db.selectFrom("revocation").selectAll().where("id", "=", id).executeTakeFirst();
    if (row === undefined) throw notFound("revocation", id);
    return row;
  }

  /** Removes revocations whose tokens have ended, and makes one of many when they are too many. @returns how many went */
  async sweep(signal: AbortSignal): Promise<number> {
    const { store, now } = this.#ctx;
    const over = await inBatches(store, signal, () => ({
      parts: sql`WITH gone AS (
        DELETE FROM revocation WHERE id IN (
          SELECT id FROM revocation WHERE expires_at <= ${now()} LIMIT ${EXPIRY_BATCH} FOR UPDATE SKIP LOCKED)
        RETURNING id, type, expires_at)`,
      changes: [{ kind: "revocation", op: "delete", of: "gone", before: REVOCATION_BEFORE }],
    }));
    return over + (await this.#condense(signal));
  }

  /**
   * Replaces revocations of sessions by one of their identity, where that saves most, until few enough are left. The identity's other sessions go on: their
   * clients need a new access token.
   */
  async #condense(signal: AbortSignal): Promise<number> {
    const { store, log } = this.#ctx;
    const { rows } = await sql<{ identityId: string; count: number; surplus: number }>`
      WITH counted AS (SELECT count(*) - ${MAX_REVOCATIONS} AS surplus FROM revocation)
      SELECT r.identity_id AS "identityId", count(*)::int AS count, (SELECT surplus FROM counted)::int AS surplus
      FROM revocation r WHERE r.type = 'API_SESSION' AND r.identity_id IS NOT NULL AND (SELECT surplus FROM counted) > 0
      GROUP BY r.identity_id HAVING count(*) > 1 ORDER BY count(*) DESC, r.identity_id`.execute(store.db);
    let removed = 0;
    for (const { identityId, count, surplus } of rows) {
      if (removed >= surplus) break;
      signal.throwIfAborted();
      await store.transaction((trx) => this.#replace(trx, identityId));
      removed += count - 1;
    }
    if (removed > 0) {
      const message =
        "many sessions ended at once: the revocations of an identity's sessions have become one of the identity";
      log.warn({ removed, most: MAX_REVOCATIONS }, message);
    }
    return removed;
  }

  async #replace(trx: Db, identityId: string): Promise<void> {
    const gone = await loggedWrite(
      trx,
      sql`WITH gone AS (DELETE FROM revocation WHERE type = 'API_SESSION' AND identity_id = ${identityId}
        RETURNING id, type, expires_at, created_at)`,
      {
        changes: [{ kind: "revocation", op: "delete", of: "gone", before: REVOCATION_BEFORE }],
        answer: sql<{
          endedAt: Date;
          expiresAt: Date;
        }>`SELECT created_at AS "endedAt", expires_at AS "expiresAt" FROM gone`,
      },
    );
    if (gone.length === 0) return;
    const latest = (times: readonly Date[]) => new Date(Math.max(...times.map((time) => time.getTime())));
    const issuedBefore = nextSecond(latest(gone.map((row) => row.endedAt)));
    await this.#put(trx, {
      id: identityId,
      type: "IDENTITY",
      expiresAt: latest(gone.map((row) => row.expiresAt)),
      issuedBefore,
    });
  }

  async #put(
    trx: Db,
    revocation: Omit<NewRevocation, "until"> & { readonly expiresAt: Date; readonly issuedBefore?: Date },
  ): Promise<void> {
    const { id, type, expiresAt, issuedBefore = null, tags = {} } = revocation;
    await loggedWrite(
      trx,
      sql`WITH made AS (INSERT INTO revocation AS r (id, type, expires_at, issued_before, tags)
        VALUES (${id}, ${type}, ${expiresAt}, ${issuedBefore}, ${JSON.stringify(tags)}::jsonb)
        ${sql.raw(REVOKED_AGAIN)}
        RETURNING id, type, expires_at)`,
      { changes: [{ kind: "revocation", op: "create", of: "made", before: REVOCATION_BEFORE }] },
    );
  }
}

/** Tokens name whole seconds: from the next one on they are none of those that are revoked. */
function nextSecond(at: Date): Date {
  return new Date(Math.floor(at.getTime() / 1_000) * 1_000 + 1_000);
}
