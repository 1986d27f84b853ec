import { sql } from "kysely";
import type { TokenSubject } from "../../auth/tokens/token-issuer.ts";
import { type ApiSessionUpdateBefore, LoggedStatement } from "../../store/changes/logged-write.ts";
import { Statement } from "../../store/driver/statement.ts";
import type { OidcShown } from "../../store/session-tables.ts";
import type { Db, ModelContext } from "../context.ts";
import { isDisabled } from "../identity/identities.ts";
import type { NewApiSession } from "./api-sessions.ts";
import { endApiSessions } from "./session-removal.ts";

/** What a login by OIDC knows besides its API session. */
export interface OidcStart {
  readonly clientId: TokenSubject["session"]["clientId"];
  readonly scopes: readonly string[];
  /** How the first factor was proved: `password`, `cert`, `ext-jwt`. */
  readonly amr: readonly string[];
  readonly shown: OidcShown;
  /** Of the certificate that logged in. */
  readonly loginFingerprint: string | null;
  /** Its tokens count only together with one of its certificates. */
  readonly isBound: boolean;
}

/** The tokens of an answer, as far as the session keeps them. */
interface OidcIssue {
  /** Null: none was asked for. */
  readonly refreshJti: string | null;
  /** When the access token ends. */
  readonly accessUntil: Date;
  /** When the session ends unless it is refreshed. */
  readonly expiresAt: Date;
  /** Of a certificate that was issued with the tokens: it takes the place of an earlier one, and the session is bound from now on. */
  readonly sessionFingerprint?: string | undefined;
}

/** What tokens of a session are made of; `at` and `issuer` are the caller's. */
type OidcSubject = Omit<TokenSubject, "at" | "issuer">;

/** With what the endpoints have to know of the session. */
export interface OidcSessionFacts extends OidcSubject {
  readonly expiresAt: Date;
  /** Null before the first token: the login is not complete. */
  readonly accessUntil: Date | null;
  readonly refreshJti: string | null;
  readonly previousJti: string | null;
  readonly rotatedAt: Date | null;
  /** Of the newest certificate that was issued with its tokens. */
  readonly sessionFingerprint: string | null;
  readonly isBound: boolean;
  readonly isDisabled: boolean;
}

/** Why a session ends before its time. */
type OidcEnd = "logout" | "code used twice" | "refresh token used twice" | "revoked";

const updateOf = (tokens: ApiSessionUpdateBefore["tokens"]) =>
  ({ kind: "api_session", op: "update", of: "noted", before: { tokens: `'${tokens}'` } }) as const;

const INSERT = new Statement<never>(
  `INSERT INTO oidc_session (api_session_id, client_id, scopes, amr, auth_time, login_fingerprint, is_bound, shown)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
  { isPipelined: true },
);

/**
 * The rows before, both locked, the API session first, as every end of a session locks them. A statement that waited here sees what the other one left.
 * The condition speaks of `a` and `o`.
 */
const locked = (condition: string) => `WITH was AS (
    SELECT o.* FROM api_session a JOIN oidc_session o ON o.api_session_id = a.id
    WHERE a.id = $1 AND ${condition} FOR UPDATE)`;

/** A certificate that comes with the tokens takes the place of the one before. */
const CERT_FINGERPRINTS = `CASE WHEN $5::text IS NULL THEN a.cert_fingerprints
  ELSE array_append(array_remove(a.cert_fingerprints, was.session_fingerprint), $5) END`;

const API_SESSION_PART = `noted AS (
    UPDATE api_session a SET access_until = greatest(a.access_until, $3), expires_at = $4, cert_fingerprints = ${CERT_FINGERPRINTS},
      last_activity_at = $6, updated_at = $6
    FROM was WHERE a.id = was.api_session_id RETURNING a.id)`;

const ACTIVATE = new LoggedStatement<{ id: string }>(
  `${locked("a.access_until IS NULL")},
  family AS (
    UPDATE oidc_session o SET refresh_jti = $2, session_fingerprint = coalesce($5, o.session_fingerprint), is_bound = o.is_bound OR $5::text IS NOT NULL
    FROM was WHERE o.api_session_id = was.api_session_id),
  ${API_SESSION_PART}`,
  { changes: [updateOf("created")], answer: "SELECT id FROM noted" },
);

/** The minute for repeats begins once. */
const ROTATE = new LoggedStatement<{ id: string }>(
  `${locked("(o.refresh_jti = $7 OR (o.is_bound AND o.previous_jti = $7 AND o.rotated_at > $8))")},
  family AS (
    UPDATE oidc_session o SET refresh_jti = $2, previous_jti = $7,
      rotated_at = CASE WHEN was.refresh_jti = $7 THEN $6 ELSE was.rotated_at END, refreshes = o.refreshes + 1,
      session_fingerprint = coalesce($5, o.session_fingerprint), is_bound = o.is_bound OR $5::text IS NOT NULL
    FROM was WHERE o.api_session_id = was.api_session_id),
  ${API_SESSION_PART}`,
  { changes: [updateOf("refreshed")], answer: "SELECT id FROM noted" },
);

const EXTEND = new LoggedStatement<{ id: string }>(
  `WITH noted AS (
    UPDATE api_session SET access_until = greatest(access_until, $2), last_activity_at = $3, updated_at = $3
    WHERE id = $1 AND access_until IS NOT NULL AND expires_at > $3 RETURNING id)`,
  { changes: [updateOf("exchanged")], answer: "SELECT id FROM noted" },
);

export interface SubjectRow {
  id: string;
  authenticator_id: string;
  config_types: string[];
  cert_fingerprints: string[];
  improper_client_cert_chain: boolean;
  is_mfa_complete: boolean;
  expires_at: Date;
  access_until: Date | null;
  client_id: OidcStart["clientId"];
  scopes: string[];
  amr: string[];
  auth_time: Date;
  login_fingerprint: string | null;
  session_fingerprint: string | null;
  is_bound: boolean;
  shown: OidcShown;
  refresh_jti: string | null;
  previous_jti: string | null;
  rotated_at: Date | null;
  identity_id: string;
  identity_name: string;
  is_admin: boolean;
  external_id: string | null;
  disabled_at: Date | null;
  disabled_until: Date | null;
  cert_allow_expired: boolean;
  is_issued_by_network: boolean | null;
  is_extend_requested: boolean | null;
  is_key_roll_requested: boolean | null;
  issued_before: Date | null;
}

/** The rows that tokens of a session are made of; `id` and `at` are expressions. */
export const subject = ({ id, at }: { readonly id: string; readonly at: string }) => `
  SELECT a.id, a.authenticator_id, a.config_types, a.cert_fingerprints, a.improper_client_cert_chain, a.is_mfa_complete, a.expires_at, a.access_until,
    o.client_id, o.scopes, o.amr, o.auth_time, o.login_fingerprint, o.session_fingerprint, o.is_bound, o.shown, o.refresh_jti, o.previous_jti, o.rotated_at,
    i.id AS identity_id, i.name AS identity_name, i.is_admin, i.external_id, i.disabled_at, i.disabled_until, p.cert_allow_expired,
    c.is_issued_by_network, c.is_extend_requested, c.is_key_roll_requested, r.issued_before
  FROM api_session a
    JOIN oidc_session o ON o.api_session_id = a.id
    JOIN identity i ON i.id = a.identity_id
    JOIN auth_policy p ON p.id = i.auth_policy_id
    LEFT JOIN authenticator c ON c.id = a.authenticator_id
    LEFT JOIN revocation r ON r.id = i.id AND r.type = 'IDENTITY'
  WHERE a.id = ${id} AND a.expires_at > ${at}`;
const SUBJECT = new Statement<SubjectRow>(subject({ id: "$1", at: "$2" }));

/** How long a client whose tokens are bound to its certificate may repeat a refresh whose answer was lost. */
const REPEAT_MS = 60_000;

/**
 * What API sessions of kind `oidc` have besides: the family of their refresh tokens, and what their tokens say. A session is pending until
 * {@link OidcSessions.activate}: no token of it exists, and it counts nowhere.
 */
export class OidcSessions {
  readonly #ctx: ModelContext;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  /** In the transaction that makes the API session. */
  async insert(trx: Db, made: NewApiSession, start: OidcStart): Promise<void> {
    const { clientId, scopes, amr, shown, loginFingerprint, isBound } = start;
    const parameters = [
      made.id,
      clientId,
      scopes,
      amr,
      made.created_at,
      loginFingerprint,
      isBound,
      JSON.stringify(shown),
    ];
    await INSERT.rows(trx, parameters);
  }

  /** The first tokens of the session are made: it counts from now on. @returns false when it has ended, or was activated before: the tokens must not go out */
  async activate(id: string, tokens: OidcIssue): Promise<boolean> {
    return (await ACTIVATE.first(this.#ctx.store.db, this.#parameters(id, tokens))) !== undefined;
  }

  /** @returns undefined for a session that has ended, and for one of another kind */
  async subjectOf(id: string): Promise<OidcSessionFacts | undefined> {
    const now = this.#ctx.now();
    const row = await SUBJECT.first(this.#ctx.store.db, [id, now]);
    return row && sessionOf(row, now);
  }

  /**
   * A refresh token was used: its successor takes its place.
   * @param from the token that was shown. Of several requests at once that show the present one, one rotates; of a bound session also the repeats within a
   * minute, while the successor is unused: the newest successor counts, and the others are dead
   * @returns `lost` when another request was first, the token is no longer the present one, or the session has ended
   */
  async rotate(
    id: string,
    from: string,
    tokens: OidcIssue & { readonly refreshJti: string },
  ): Promise<"rotated" | "lost"> {
    const since = new Date(this.#ctx.now().getTime() - REPEAT_MS);
    const done = await ROTATE.first(this.#ctx.store.db, [...this.#parameters(id, tokens), from, since]);
    return done === undefined ? "lost" : "rotated";
  }

  /** An access token was made for another one, or for a refresh token that stays. @returns false when the session has ended */
  async extend(id: string, accessUntil: Date): Promise<boolean> {
    return (await EXTEND.first(this.#ctx.store.db, [id, accessUntil, this.#ctx.now()])) !== undefined;
  }

  /** @returns false when it has ended before */
  async end(id: string, reason: OidcEnd): Promise<boolean> {
    const ended = await this.#ctx.store.transaction((trx) =>
      endApiSessions(trx, sql`a.id = ${id} AND a.kind = 'oidc'`),
    );
    if (ended.length > 0) this.#ctx.log.info({ apiSessionId: id, reason }, "a session of an OIDC login has ended");
    return ended.length > 0;
  }

  #parameters(id: string, { refreshJti, accessUntil, expiresAt, sessionFingerprint }: OidcIssue): unknown[] {
    return [id, refreshJti, accessUntil, expiresAt, sessionFingerprint ?? null, this.#ctx.now()];
  }
}

export function sessionOf(row: SubjectRow, now: Date): OidcSessionFacts {
  const notBefore = row.issued_before === null ? {} : { notBeforeSecond: row.issued_before.getTime() / 1_000 };
  return {
    identity: { id: row.identity_id, name: row.identity_name, isAdmin: row.is_admin, externalId: row.external_id },
    session: {
      id: row.id,
      authenticatorId: row.authenticator_id,
      clientId: row.client_id,
      scopes: row.scopes,
      amr: amrOf(row),
      authTime: row.auth_time,
      configTypes: row.config_types,
      certFingerprints: row.cert_fingerprints,
      loginFingerprint: row.login_fingerprint,
      allowExpired: row.cert_allow_expired,
      isExtendable: row.is_issued_by_network ?? false,
      isExtendRequested: row.is_extend_requested ?? false,
      isKeyRollRequested: row.is_key_roll_requested ?? false,
      improperClientCertChain: row.improper_client_cert_chain,
      shown: row.shown,
    },
    ...notBefore,
    expiresAt: row.expires_at,
    accessUntil: row.access_until,
    refreshJti: row.refresh_jti,
    previousJti: row.previous_jti,
    rotatedAt: row.rotated_at,
    sessionFingerprint: row.session_fingerprint,
    isBound: row.is_bound,
    isDisabled: isDisabled(row, now),
  };
}

/** How the session was proved, as of now: a code may have been passed after the login. */
function amrOf({ amr, authenticator_id, is_mfa_complete }: SubjectRow): string[] {
  const signer = /^extJwtId:(.+)$/.exec(authenticator_id)?.[1];
  const further = [signer && `ejs:${signer}`, is_mfa_complete && "totp"].filter((method) => typeof method === "string");
  return [...new Set([...amr, ...further])];
}
