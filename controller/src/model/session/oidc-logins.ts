import { createHash, createHmac, randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import { apiError } from "@sallyport/api";
import { BoundedMap } from "@sallyport/async";
import type { Selectable } from "kysely";
import { Statement } from "../../store/driver/statement.ts";
import type { OidcLoginTable } from "../../store/session-tables.ts";
import type { Db, ModelContext } from "../context.ts";
import { type OidcSessionFacts, type SubjectRow, sessionOf, subject } from "./oidc-sessions.ts";

/** A login by OIDC that is under way. */
export interface LoginRow {
  /** A UUID. Some clients keep no longer one. */
  readonly id: string;
  readonly clientId: string;
  readonly redirectUri: string;
  readonly state: string;
  readonly nonce: string;
  readonly codeChallenge: string;
  readonly scopes: string[];
  /** Names or ids, as asked for. */
  readonly configTypes: string[];
  readonly remoteAddress: string;
  readonly csrPem: string | null;
  /** Set once the first factor is proved. */
  readonly apiSessionId: string | null;
  /** Its steps need the secret of the page on which it began. */
  readonly isOfPage: boolean;
  readonly expiresAt: Date;
}

/** What a request to log in asks for. */
export type NewLogin = Omit<LoginRow, "id" | "apiSessionId" | "isOfPage" | "csrPem">;

/** What the proof of the first factor leaves. */
export interface ProvedLogin {
  readonly apiSessionId: string;
  readonly csrPem?: string | undefined;
  readonly pageSecret?: string | undefined;
  readonly expiresAt: Date;
  /** No further factor is open: the login is finished with it. */
  readonly isFinished: boolean;
}

/** Where the code of a finished login goes. */
type Destination = Pick<LoginRow, "redirectUri" | "state" | "expiresAt">;

/** A login whose code was taken. */
interface TakenLogin
  extends Pick<LoginRow, "clientId" | "redirectUri" | "nonce" | "codeChallenge" | "scopes" | "csrPem"> {
  readonly apiSessionId: string;
  /** Undefined when it has ended. */
  readonly session: OidcSessionFacts | undefined;
}

type StoredLogin = Selectable<OidcLoginTable>;

type TakenRow = Pick<StoredLogin, "redirect_uri" | "nonce" | "code_challenge" | "csr_pem"> & {
  login_client_id: string;
  login_scopes: string[];
  api_session_id: string;
} & (SubjectRow | { readonly id: null });

const INSERT = new Statement<never>(`
  INSERT INTO oidc_login (id, client_id, redirect_uri, state, nonce, code_challenge, scopes, config_types, remote_address, expires_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`);
const FIND = new Statement<StoredLogin>(
  "SELECT * FROM oidc_login WHERE id = $1 AND code_hash IS NULL AND expires_at > $2",
);
const ABANDON = new Statement<never>("DELETE FROM oidc_login WHERE id = $1 AND api_session_id IS NULL");
const PROVE = new Statement<{ id: string }>(`
  UPDATE oidc_login SET api_session_id = $2, csr_pem = $3, page_hash = $4, expires_at = $5, code_hash = $7
  WHERE id = $1 AND api_session_id IS NULL AND expires_at > $6 RETURNING id`);
const FINISH = new Statement<{ id: string }>(`
  UPDATE oidc_login SET code_hash = $2
  WHERE id = $1 AND code_hash IS NULL AND api_session_id IS NOT NULL AND expires_at > $3 RETURNING id`);
const BY_CODE = new Statement<Pick<StoredLogin, "redirect_uri" | "state">>(
  "SELECT redirect_uri, state FROM oidc_login WHERE code_hash = $1 AND code_used_at IS NULL AND expires_at > $2",
);
/** With what tokens of its session are made of. */
const TAKE = new Statement<TakenRow>(`
  WITH taken AS (
    UPDATE oidc_login SET code_used_at = $2 WHERE code_hash = $1 AND code_used_at IS NULL AND expires_at > $2 RETURNING *)
  SELECT t.client_id AS login_client_id, t.redirect_uri, t.nonce, t.code_challenge, t.scopes AS login_scopes, t.csr_pem, t.api_session_id, s.*
  FROM taken t LEFT JOIN LATERAL (${subject({ id: "t.api_session_id", at: "$2" })}) s ON true`);
const USED = new Statement<{ api_session_id: string }>(
  "SELECT api_session_id FROM oidc_login WHERE code_hash = $1 AND code_used_at IS NOT NULL",
);

/** Finished logins whose callbacks are on their way. */
export const MAX_DESTINATIONS = 1_000;

/** 32 bytes as base64url: needs no percent-encoding, which some clients apply twice. */
const SECRET = /^[\w-]{43}$/;

/**
 * Logins by OIDC from the request to the code (docs/protocol/authentication.md, "OIDC"). No secret is stored, only its digest: the id of a request alone never
 * leads to a code, the client that finishes it gets a secret for the callback, and the callback makes the code of it.
 */
export class OidcLogins {
  readonly #ctx: ModelContext;
  /** Of logins that this controller finished, by the secret for the callback, which reads no row then. Whether the code counts is asked when it is taken. */
  readonly #destinations = new BoundedMap<string, Destination>(MAX_DESTINATIONS);

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  /** @returns the id under which the client goes on */
  async begin(request: NewLogin): Promise<string> {
    const id = randomUUID();
    const { clientId, redirectUri, state, nonce, codeChallenge, scopes, configTypes, remoteAddress, expiresAt } =
      request;
    await INSERT.rows(this.#ctx.store.db, [
      ...[id, clientId, redirectUri, state, nonce, codeChallenge],
      ...[scopes, configTypes, remoteAddress, expiresAt],
    ]);
    return id;
  }

  /** Ends a login in which nothing was proved. */
  async abandon(id: string): Promise<void> {
    await ABANDON.rows(this.#ctx.store.db, [id]);
  }

  /** @returns undefined for a login that is unknown, over or finished, and for one of a page whose secret was not given */
  async find(id: string, pageSecret?: string): Promise<LoginRow | undefined> {
    const row = await FIND.first(this.#ctx.store.db, [id, this.#ctx.now()]);
    if (row === undefined || (row.page_hash !== null && !isOf(row.page_hash, pageSecret))) return undefined;
    return loginOf(row);
  }

  /**
   * The first factor was proved, and the API session is made in the same transaction: the login is tied to it, and ends with it.
   * @returns the secret for the callback of a login that is finished with it
   * @throws ApiError 401 when another client was first, or the login is over
   */
  async prove(trx: Db, id: string, proved: ProvedLogin): Promise<string | undefined> {
    const { apiSessionId, csrPem, pageSecret, expiresAt, isFinished } = proved;
    const secret = isFinished ? newSecret() : undefined;
    const pageHash = pageSecret === undefined ? null : digest(pageSecret);
    const codeHash = secret === undefined ? null : digest(codeOf(secret));
    const parameters = [id, apiSessionId, csrPem ?? null, pageHash, expiresAt, this.#ctx.now(), codeHash];
    if ((await PROVE.first(trx, parameters)) === undefined) throw notUsable(id);
    return secret;
  }

  /**
   * Every factor was proved.
   * @returns the secret for the callback, once
   * @throws ApiError 401 when the login is over, or was finished before
   */
  async finish(id: string): Promise<string> {
    const secret = newSecret();
    const parameters = [id, digest(codeOf(secret)), this.#ctx.now()];
    if ((await FINISH.first(this.#ctx.store.db, parameters)) === undefined) throw notUsable(id);
    return secret;
  }

  /** The login is finished, and its callback comes next. */
  expectCallback(secret: string, { redirectUri, state, expiresAt }: Destination): void {
    this.#destinations.set(secret, { redirectUri, state, expiresAt });
  }

  /** The code for the client that finished the login, and where it goes; nothing is written. */
  async byCallback(secret: string): Promise<{ code: string; redirectUri: string; state: string } | undefined> {
    if (!SECRET.test(secret)) return undefined;
    const code = codeOf(secret);
    const expected = this.#destinations.get(secret);
    if (expected !== undefined) {
      this.#destinations.delete(secret);
      const { redirectUri, state, expiresAt } = expected;
      if (expiresAt > this.#ctx.now()) return { code, redirectUri, state };
    }
    const row = await BY_CODE.first(this.#ctx.store.db, [digest(code), this.#ctx.now()]);
    return row && { code, redirectUri: row.redirect_uri, state: row.state };
  }

  /**
   * Uses the code: of any number of callers at once one gets the login, the others the API session that was made with it, which has to end (RFC 6749,
   * section 4.1.2).
   * @returns undefined for a code that is unknown or over
   */
  async takeCode(code: string): Promise<TakenLogin | { usedBy: string } | undefined> {
    if (!SECRET.test(code)) return undefined;
    const { db } = this.#ctx.store;
    const hash = digest(code);
    const now = this.#ctx.now();
    const row = await TAKE.first(db, [hash, now]);
    if (row !== undefined) return takenOf(row, now);
    const used = await USED.first(db, [hash]);
    return used && { usedBy: used.api_session_id };
  }
}

function loginOf(row: StoredLogin): LoginRow {
  return {
    id: row.id,
    clientId: row.client_id,
    redirectUri: row.redirect_uri,
    state: row.state,
    nonce: row.nonce,
    codeChallenge: row.code_challenge,
    scopes: row.scopes,
    configTypes: row.config_types,
    remoteAddress: row.remote_address,
    csrPem: row.csr_pem,
    apiSessionId: row.api_session_id,
    isOfPage: row.page_hash !== null,
    expiresAt: row.expires_at,
  };
}

function takenOf(row: TakenRow, now: Date): TakenLogin {
  return {
    clientId: row.login_client_id,
    redirectUri: row.redirect_uri,
    nonce: row.nonce,
    codeChallenge: row.code_challenge,
    scopes: row.login_scopes,
    csrPem: row.csr_pem,
    apiSessionId: row.api_session_id,
    session: row.id === null ? undefined : sessionOf(row, now),
  };
}

function newSecret(): string {
  return randomBytes(32).toString("base64url");
}

function codeOf(secret: string): string {
  return createHmac("sha256", Buffer.from(secret, "base64url")).update("code").digest("base64url");
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

function isOf(hash: Buffer, secret: string | undefined): boolean {
  return secret !== undefined && timingSafeEqual(hash, digest(secret));
}

function notUsable(id: string): Error {
  return apiError("UNAUTHORIZED", undefined, { detail: `login ${id} is over, or another client was first` });
}
