import { randomUUID, X509Certificate } from "node:crypto";
import { notFound } from "@sallyport/api";
import { nameParts } from "@sallyport/wire";
import { type Selectable, sql } from "kysely";
import { namesIn } from "../../fabric/token-names.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import { LoggedStatement, loggedWrite } from "../../store/changes/logged-write.ts";
import { likely, Statement } from "../../store/driver/statement.ts";
import { randomEntityId, timeOrderedId } from "../../store/ids.ts";
import type { ApiSessionCertificateTable, ApiSessionKind, ApiSessionTable } from "../../store/session-tables.ts";
import type { Db, ModelContext } from "../context.ts";
import { EXPIRY_BATCH, untilNotFull } from "../expiry.ts";
import { transact } from "../store-errors.ts";
import { endApiSessions } from "./session-removal.ts";

export type ApiSessionRow = Selectable<ApiSessionTable>;
export type ApiSessionCertificateRow = Selectable<ApiSessionCertificateTable>;

/** What decides when a session ends by itself. */
type SessionTimes = Pick<ApiSessionRow, "id" | "last_activity_at" | "expires_at">;

/** A session as it was made. */
export interface NewApiSession extends ApiSessionRow {
  /** How many the identity had before. */
  readonly others: number;
}

/** With its change. TOTP is to be passed when the identity has it, or its policy asks for it. */
const INSERT = new LoggedStatement<NewApiSession>(
  `WITH made AS (
    INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address, config_types, cert_fingerprints,
      improper_client_cert_chain, created_at, updated_at, last_activity_at, kind, expires_at, is_mfa_required)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $9, $10, $11,
      EXISTS (SELECT 1 FROM mfa WHERE identity_id = $3 AND is_verified)
      OR EXISTS (SELECT 1 FROM identity i JOIN auth_policy p ON p.id = i.auth_policy_id WHERE i.id = $3 AND p.require_totp))
    RETURNING *)`,
  {
    changes: [{ kind: "api_session", op: "create", of: "made" }],
    answer: "SELECT made.*, (SELECT count(*)::int FROM api_session WHERE identity_id = $3) AS others FROM made",
  },
);
const BY_ID = new Statement<ApiSessionRow>("SELECT * FROM api_session WHERE id = $1");
const BY_TOKEN = new Statement<ApiSessionRow>("SELECT * FROM api_session WHERE token = $1");

const FLUSH_BATCH = 250;
/** How often noted activity is written. */
export const FLUSH_MS = 90_000;
/** What another controller has noted and not written yet is younger, even if it could not write once. */
const UNSEEN_MS = 2 * FLUSH_MS;
const MAX_CERTIFICATES = 100;

/**
 * Security contexts of authenticated identities. Activity is noted in memory and written in batches; the sweep ends sessions whose last activity is older than
 * the timeout.
 *
 * A session that was in use within the timeout never counts as expired, however old the caller's row is: noted activity is kept until it is too old to matter,
 * not only until it is written. Beside other controllers, which may have noted activity that is not written yet, a session lasts longer by that time.
 */
export class ApiSessions {
  readonly #ctx: ModelContext;
  /** Newest activity, by session id, in milliseconds. */
  readonly #activity = new Map<string, number>();
  /** Sessions of which it is not written yet. */
  readonly #unwritten = new Set<string>();

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  get timeoutMs(): number {
    return this.#ctx.settings.sessionTimeoutMs;
  }

  /** Idle time after which a session ends here. */
  get #idleMs(): number {
    return this.#ctx.liveReplicas() > 1 ? this.timeoutMs + UNSEEN_MS : this.timeoutMs;
  }

  /** Makes a session in the transaction of a login. */
  async insert(
    trx: Db,
    session: {
      readonly identityId: string;
      readonly authenticatorId: string;
      readonly ipAddress: string;
      readonly configTypes: readonly string[];
      readonly certFingerprints: readonly string[];
      readonly improperClientCertChain: boolean;
      /** Of an OIDC login that is not complete: it ends then, and is pending until it has tokens. */
      readonly as?: { readonly kind: "oidc"; readonly expiresAt: Date } | undefined;
    },
  ): Promise<NewApiSession> {
    const id = session.as === undefined ? timeOrderedId(this.#ctx.store.clock.now()) : randomUUID();
    const row = await INSERT.first(trx, [
      id,
      session.as === undefined ? randomUUID() : tokenOfOidcSession(id),
      session.identityId,
      session.authenticatorId,
      session.ipAddress,
      session.configTypes,
      session.certFingerprints,
      session.improperClientCertChain,
      this.#ctx.now(),
      session.as?.kind ?? "legacy",
      session.as?.expiresAt ?? null,
    ]);
    if (row === undefined) throw new Error("an API session was stored, and the database answered no row");
    return row;
  }

  /** Ends the sessions of an identity that are too many beside the new one: those that are idle for longest. */
  async keepNewest(trx: Db, made: NewApiSession, max: number): Promise<void> {
    const identityId = made.identity_id;
    const surplus = made.others + 1 - max;
    if (surplus <= 0) return;
    const rows = await trx
      .selectFrom("api_session")
      .select(["id", "last_activity_at"])
      .where("identity_id", "=", identityId)
      .where("id", "<>", made.id)
      .execute();
    const idlest = rows
      .map((row) => ({ id: row.id, at: this.lastActivity(row).getTime() }))
      .sort((a, b) => a.at - b.at)
      .slice(0, surplus)
      .map((row) => row.id);
    const ended = await endApiSessions(trx, sql`a.id = ANY (${idlest}::text[])`);
    const message = "an identity has too many API sessions: the idlest have ended";
    this.#ctx.log.info({ identityId, ended: ended.length }, message);
  }

  async find(db: Db, id: string): Promise<ApiSessionRow | undefined> {
    return BY_ID.first(db, [id]);
  }

  async findByToken(db: Db, token: string): Promise<ApiSessionRow | undefined> {
    return BY_TOKEN.first(db, [token]);
  }

  /**
   * TOTP was passed in this session, now: nothing of it is open any more, and checks that let it time out count from here.
   * @throws ApiError 404
   */
  async completeMfa(id: string): Promise<ApiSessionRow> {
    const now = this.#ctx.now();
    return this.#ctx.store.transaction(async (trx) => {
      const row = await trx
        .updateTable("api_session")
        .set({ is_mfa_required: true, is_mfa_complete: true, mfa_passed_at: now, updated_at: now })
        .where("id", "=", id)
        .returningAll()
        .executeTakeFirst();
      if (row === undefined) throw notFound("apiSession", id);
      await appendChange(trx, { kind: "api_session", key: id, op: "update", before: { isNowFull: true } });
      return row;
    });
  }

  /** @throws ApiError 404 */
  async delete(id: string): Promise<void> {
    const gone = await this.#ctx.store.transaction((trx) => endApiSessions(trx, sql`a.id = ${id}`));
    this.#activity.delete(id);
    this.#unwritten.delete(id);
    if (gone.length === 0) throw notFound("apiSession", id);
  }

  /** Notes that the session is in use, now. Activity of one of kind `oidc`, which ends by its tokens, is only shown: it is not written. */
  touch({ id, kind }: Pick<ApiSessionRow, "id" | "kind">): void {
    this.#activity.set(id, this.#ctx.now().getTime());
    if (kind === "legacy") this.#unwritten.add(id);
  }

  /** Like {@link touch} for tokens of sessions, and for access tokens; answers the tokens that are no session's. */
  async touchTokens(tokens: readonly string[]): Promise<string[]> {
    if (tokens.length === 0) return [];
    const storedOf = new Map(tokens.map((token) => [token, storedToken(token)]));
    const { rows } = await sql<{ id: string; token: string; kind: ApiSessionKind }>`
      SELECT id, token, kind FROM api_session WHERE token = ANY (${[...storedOf.values()]}::text[])`.execute(
      this.#ctx.store.db,
    );
    const known = new Set(rows.map((row) => row.token));
    for (const row of rows) this.touch(row);
    return tokens.filter((token) => !known.has(storedOf.get(token) ?? token));
  }

  /** The newest known activity of a session. */
  lastActivity(row: Pick<ApiSessionRow, "id" | "last_activity_at">): Date {
    const noted = this.#activity.get(row.id) ?? 0;
    return noted > row.last_activity_at.getTime() ? new Date(noted) : row.last_activity_at;
  }

  /** True when the session's time is over, whether or not the sweep has come by. */
  isExpired(row: SessionTimes): boolean {
    if (row.expires_at !== null) return row.expires_at.getTime() <= this.#ctx.now().getTime();
    return this.lastActivity(row).getTime() + this.#idleMs <= this.#ctx.now().getTime();
  }

  /** Writes noted activity, in batches. */
  async flush(): Promise<void> {
    const noted = [...this.#unwritten];
    for (let start = 0; start < noted.length; start += FLUSH_BATCH) {
      const ids = noted.slice(start, start + FLUSH_BATCH);
      const times = ids.map((id) => this.#activity.get(id) ?? 0);
      await sql`UPDATE api_session a SET last_activity_at = greatest(a.last_activity_at, n.at)
        FROM unnest(${ids}::text[], ${times.map((at) => new Date(at).toISOString())}::timestamptz[]) AS n (id, at)
        WHERE a.id = n.id`.execute(this.#ctx.store.db);
      for (const [at, id] of ids.entries()) if (this.#activity.get(id) === times[at]) this.#unwritten.delete(id);
    }
    this.#forgetOld();
  }

  /** Drops what is written and too old to matter. */
  #forgetOld(): void {
    const since = this.#ctx.now().getTime() - this.#idleMs;
    for (const [id, at] of this.#activity) if (at <= since && !this.#unwritten.has(id)) this.#activity.delete(id);
  }

  /** Ends the sessions whose time is over; answers how many. */
  async sweep(): Promise<number> {
    // From before the flush: what is used while it writes is not over.
    const now = this.#ctx.now();
    const cutoff = new Date(now.getTime() - this.#idleMs);
    await this.flush();
    return untilNotFull(EXPIRY_BATCH, undefined, async () => {
      const ended = await this.#ctx.store.transaction((trx) =>
        endApiSessions(
          trx,
          sql`a.id IN (SELECT id FROM api_session WHERE (kind = 'legacy' AND last_activity_at <= ${cutoff}) OR expires_at <= ${now}
            LIMIT ${EXPIRY_BATCH} FOR UPDATE SKIP LOCKED)`,
        ),
      );
      return ended.length;
    });
  }

  /**
   * A short-lived certificate for a session; routers accept it for the session's token from now on. A session keeps its
   * newest hundred: every router gets all of them with each change.
   * @throws ApiError 404 when the session ended meanwhile
   */
  async addCertificate(
    session: Pick<ApiSessionRow, "id" | "identity_id">,
    csr: string,
    lifetimeMs?: number,
  ): Promise<ApiSessionCertificateRow> {
    const id = randomEntityId();
    const { store, pki } = this.#ctx;
    const issued = await pki.issueSessionCertificate(csr, {
      identityId: session.identity_id,
      apiSessionId: session.id,
      certificateId: id,
      lifetimeMs,
    });
    return transact(store, async (trx) => {
      const row = await trx
        .insertInto("api_session_certificate")
        .values({
          id,
          api_session_id: session.id,
          subject: subjectOf(issued.leafPem),
          fingerprint: issued.fingerprint,
          cert_pem: issued.pem,
          valid_from: issued.notBefore,
          valid_to: issued.notAfter,
        })
        .returningAll()
        .executeTakeFirstOrThrow();
      await this.#dropOldCertificates(trx, session.id, id);
      await this.#fingerprintsChanged(trx, session.id, id, "create");
      return row;
    });
  }

  /** @throws ApiError 404, also for a certificate of another session */
  async removeCertificate(sessionId: string, id: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      // The session first, as every change of it locks it.
      await sql`SELECT FROM api_session WHERE id = ${sessionId} FOR UPDATE`.execute(trx);
      const gone = await trx
        .deleteFrom("api_session_certificate")
        .where("id", "=", id)
        .where("api_session_id", "=", sessionId)
        .returning("fingerprint")
        .executeTakeFirst();
      if (gone === undefined) throw notFound("apiSessionCertificate", id);
      // A session by OIDC whose tokens need a certificate still needs one when this was the last.
      await sql`UPDATE api_session SET cert_fingerprints = array_remove(cert_fingerprints, ${gone.fingerprint})
        WHERE id = ${sessionId} AND ${gone.fingerprint} = ANY (cert_fingerprints)`.execute(trx);
      await this.#fingerprintsChanged(trx, sessionId, id, "delete");
    });
  }

  async #dropOldCertificates(trx: Db, sessionId: string, newest: string): Promise<void> {
    await loggedWrite(
      trx,
      sql`WITH gone AS (DELETE FROM api_session_certificate WHERE id IN (
        SELECT id FROM api_session_certificate WHERE api_session_id = ${sessionId} AND id <> ${newest}
        ORDER BY created_at DESC, id OFFSET ${MAX_CERTIFICATES - 1}) RETURNING id, api_session_id)`,
      {
        changes: [
          { kind: "api_session_certificate", op: "delete", of: "gone", before: { apiSessionId: "api_session_id" } },
        ],
      },
    );
  }

  async #fingerprintsChanged(trx: Db, sessionId: string, id: string, op: "create" | "delete"): Promise<void> {
    await appendChange(
      trx,
      { kind: "api_session_certificate", key: id, op, before: { apiSessionId: sessionId } },
      { kind: "api_session", key: sessionId, op: "update" },
    );
  }
}

/** What is stored in place of a token for a session whose tokens are signed: no secret, and never a token that a request could show. */
export function tokenOfOidcSession(id: string): string {
  return `oidc:${id}`;
}

/** The stored token of the session that a token names. Of an access token the claim is believed unchecked: this is for what grants nothing. */
function storedToken(token: string): string {
  const id = namesIn(token)?.apiSessionId;
  return id === undefined ? token : tokenOfOidcSession(id);
}

/** The distinguished name on one line, most specific part first; empty when it has no parts. */
function subjectOf(pem: string): string {
  return nameParts(new X509Certificate(pem).subject).reverse().join(",");
}

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
