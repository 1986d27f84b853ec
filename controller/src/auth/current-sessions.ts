import type { X509Certificate } from "node:crypto";
import { unauthorized } from "@sallyport/api";
import { fingerprint } from "@sallyport/wire";
import type { ModelContext } from "../model/context.ts";
import type { ExtJwtSignerRow } from "../model/identity/ext-jwt-signers.ts";
import { isDisabled } from "../model/identity/identities.ts";
import { type ApiSessions, tokenOfOidcSession } from "../model/session/api-sessions.ts";
import { likely, Statement } from "../store/driver/statement.ts";
import type { ApiSessionKind } from "../store/session-tables.ts";
import { networkLeaf } from "./client-certificate.ts";
import { type OpenFactors, openFactors } from "./factors.ts";
import type { TokenCheck } from "./jwt/token-check.ts";
import type { ProxyingRouters } from "./limits/attempt-limits.ts";
import { type ProxiedCertificates, passedOnChain } from "./primary/proxied-certificate-login.ts";
import { SessionRows } from "./session-rows.ts";
import { isBoundTo } from "./tokens/bound-certificate.ts";
import type { AccessClaims } from "./tokens/claims.ts";
import type { CheckLimit, Signed } from "./tokens/own-tokens.ts";

/** The session of a request, with what authorisation needs. */
export interface AuthenticatedSession {
  readonly id: string;
  readonly kind: "legacy" | "oidc";
  /** As it came. */
  readonly token: string;
  /** The access token, if it is one. */
  readonly access?: AccessToken;
  readonly identityId: string;
  readonly isAdmin: boolean;
  readonly configTypes: readonly string[];
  readonly lastActivityAt: Date;
  readonly open: OpenFactors;
}

/** What a request is told of the access token that it carries. */
interface AccessToken {
  readonly jti: string;
  readonly issuedAt: Date;
  readonly expiresAt: Date;
}

/** Why a request has no session: what its caller may know, and what the log gets. */
export interface RefusedBearer {
  readonly refused: "missing" | "invalid" | "expired";
  readonly detail?: string;
}

/** What of a request proves a session by access token. */
export interface BearerRequest {
  readonly bearerTokens: readonly string[];
  readonly peerCertificates: readonly X509Certificate[];
  readonly proxied?: ProxiedCertificates | undefined;
  readonly remoteIp: string;
}

/** What of a request shows the certificate of its connection. */
export type CertificateHolder = Pick<BearerRequest, "peerCertificates" | "proxied">;

/** A session that a connection had before. */
export type EarlierSession = Pick<AuthenticatedSession, "id" | "identityId" | "token" | "access">;

/** The one row that a request reads before anything else. */
interface SessionOfToken {
  id: string;
  kind: ApiSessionKind;
  token: string;
  config_types: string[];
  last_activity_at: Date;
  expires_at: Date | null;
  access_until: Date | null;
  cert_fingerprints: string[];
  issued_fingerprints: string[];
  is_bound: boolean;
  is_mfa_complete: boolean;
  identity_id: string;
  external_id: string | null;
  is_admin: boolean;
  disabled_at: Date | null;
  disabled_until: Date | null;
  require_totp: boolean;
  cert_allow_expired: boolean;
  is_mfa_verified: boolean;
  required_signer: ExtJwtSignerRow | null;
}

const SESSIONS = `
      SELECT a.id, a.kind, a.token, a.config_types, a.last_activity_at, a.expires_at, a.access_until, a.cert_fingerprints, a.is_mfa_complete,
        coalesce(o.is_bound, false) AS is_bound,
        ARRAY(SELECT c.fingerprint FROM api_session_certificate c WHERE o.is_bound AND c.api_session_id = a.id ORDER BY c.id) AS issued_fingerprints,
        i.id AS identity_id, i.external_id, i.is_admin, i.disabled_at, i.disabled_until,
        p.require_totp, p.cert_allow_expired, coalesce(m.is_verified, false) AS is_mfa_verified, row_to_json(s) AS required_signer
      FROM api_session a
        JOIN identity i ON i.id = a.identity_id
        JOIN auth_policy p ON p.id = i.auth_policy_id
        LEFT JOIN oidc_session o ON o.api_session_id = a.id
        LEFT JOIN mfa m ON m.identity_id = i.id
        LEFT JOIN ext_jwt_signer s ON s.id = p.require_ext_jwt_signer`;
const SESSION_OF_TOKEN = new Statement<SessionOfToken>(`${SESSIONS} WHERE a.token = $1`);
const SESSIONS_OF_TOKENS = new Statement<SessionOfToken>(`${SESSIONS} WHERE a.token = ANY ($1::text[])`);

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** An access token with a good signature, and the tokens beside it. */
interface ShownToken {
  readonly token: string;
  readonly external: readonly string[];
  readonly signed: Signed<AccessClaims>;
}

interface CurrentSessionsParts {
  readonly tokens: TokenCheck;
  readonly proxyingRouters: ProxyingRouters;
  /** Of the checks of tokens that are not known. */
  checkLimit(request: BearerRequest): CheckLimit;
  /** Called for each row that has to be read. */
  readonly onRead: (() => void) | undefined;
}

/** The sessions of requests, by their tokens (docs/protocol/authentication.md, "Session" and "Access tokens"). */
export class CurrentSessions {
  readonly #ctx: ModelContext;
  readonly #apiSessions: ApiSessions;
  readonly #parts: CurrentSessionsParts;
  readonly #rows: SessionRows<SessionOfToken>;
  /** By the bearer tokens of a request, which are the same array as long as its connection repeats them. */
  readonly #shown = new WeakMap<readonly string[], ShownToken>();

  constructor(ctx: ModelContext, apiSessions: ApiSessions, parts: CurrentSessionsParts) {
    this.#ctx = ctx;
    this.#apiSessions = apiSessions;
    this.#parts = parts;
    const { changes, db } = ctx.store;
    this.#rows = new SessionRows({
      changes,
      load: (token) => {
        parts.onRead?.();
        return SESSION_OF_TOKEN.first(db, [token]);
      },
      loadAll: (tokens) => SESSIONS_OF_TOKENS.rows(db, [likely(tokens)]),
      log: ctx.log,
    });
  }

  /** The live session of a token. Runs for every request, with at most one statement. @throws ApiError 401 when its identity is disabled */
  async ofToken(token: string, bearerTokens: readonly string[]): Promise<AuthenticatedSession | undefined> {
    if (!UUID.test(token)) return undefined;
    let row = await this.#rows.find(token);
    if (row !== undefined && this.#apiSessions.isExpired(row)) {
      // Another process may have noted activity.
      this.#rows.forget(token);
      row = await this.#rows.find(token);
    }
    if (row === undefined || this.#apiSessions.isExpired(row)) return undefined;
    if (isDisabled(row, this.#ctx.now())) throw unauthorized(`identity ${row.identity_id} is disabled`);
    return this.#inUse(row, token, bearerTokens);
  }

  /**
   * The live session of the access token among the bearer tokens; all others are external. The token says which session it is, the rows decide
   * (docs/protocol/authentication.md, "Access tokens").
   * @throws ApiError 429 for a token that is not known yet, after too many attempts from where it comes
   */
  async ofBearer(request: BearerRequest): Promise<AuthenticatedSession | RefusedBearer> {
    if (!this.#ctx.settings.oidc.enabled) return MISSING;
    const shown = this.#shownBefore(request) ?? (await this.#ownAmong(request));
    if ("refused" in shown) return shown;
    const { sub, jti, iat, z_asid: id } = shown.signed.claims;
    const row = await this.#rowFor({ id, identityId: sub, jti }, request);
    if ("refused" in row) return row;
    // Earlier commits are known only now, and with them that its key was removed.
    if (this.#ctx.tokens.own.accessAgain(shown.signed) === undefined) return invalid("its key has ended");
    const access = { jti, issuedAt: new Date(iat * 1_000), expiresAt: shown.signed.expiresAt };
    return this.#inUse(row, shown.token, shown.external, access);
  }

  /** The token that the connection has shown before, as far as it is good still: nothing is hashed again. */
  #shownBefore({ bearerTokens }: BearerRequest): ShownToken | RefusedBearer | undefined {
    const before = this.#shown.get(bearerTokens);
    const checked = before && this.#ctx.tokens.own.accessAgain(before.signed);
    return checked !== undefined && "refused" in checked ? checked : checked && before;
  }

  /** The access token among the bearer tokens. */
  async #ownAmong(request: BearerRequest): Promise<ShownToken | RefusedBearer> {
    const { own } = this.#ctx.tokens;
    const { bearerTokens } = request;
    const [token, second] = bearerTokens.filter((each) => own.isOwn(each));
    if (token === undefined) return MISSING;
    if (second !== undefined) return invalid("there are two tokens of this network");
    const signed = await own.access(token, this.#parts.checkLimit(request));
    // Its key ended while it was checked.
    if (signed === undefined) return invalid("its key has ended");
    if ("refused" in signed) return signed;
    const shown = { token, external: externalOf(bearerTokens, token), signed };
    this.#shown.set(bearerTokens, shown);
    return shown;
  }

  /**
   * The session of {@link ofBearer} as it is now, for a connection that lasts: its token may have ended, as long as the session has a newer one.
   */
  async again(
    { id, identityId, token, access }: EarlierSession,
    request: BearerRequest,
  ): Promise<AuthenticatedSession | RefusedBearer> {
    const row = await this.#rowFor({ id, identityId, jti: access?.jti ?? "" }, request);
    if ("refused" in row) return row;
    if (row.access_until === null || row.access_until <= this.#ctx.now()) return { refused: "expired" };
    return this.#inUse(row, token, externalOf(request.bearerTokens, token), access);
  }

  /**
   * The factors that a login by OIDC still has open after the first one.
   * @throws ApiError 401 when its session has ended or its identity is disabled
   */
  async openFactorsOf(apiSessionId: string, bearerTokens: readonly string[]): Promise<OpenFactors> {
    const row = await this.#rows.find(tokenOfOidcSession(apiSessionId));
    if (row === undefined || this.#apiSessions.isExpired(row) || isDisabled(row, this.#ctx.now())) {
      throw unauthorized(`API session ${apiSessionId} of the login has ended, or its identity is disabled`);
    }
    return this.#openFactors(row, bearerTokens);
  }

  /** Whether the connection has a certificate that the tokens of the session need; true when they need none. */
  async holdsCertificateOf(apiSessionId: string, request: CertificateHolder): Promise<boolean> {
    const row = await this.#rows.find(tokenOfOidcSession(apiSessionId));
    return row !== undefined && (await this.#isBound(row, request));
  }

  /** The row of the session that an access token names, if the token counts. Waits until every earlier commit is known. */
  async #rowFor(
    { id, identityId, jti }: { readonly id: string; readonly identityId: string; readonly jti: string },
    request: BearerRequest,
  ): Promise<SessionOfToken | RefusedBearer> {
    const row = await this.#rows.find(tokenOfOidcSession(id));
    if (row === undefined) return invalid(`API session ${id} has ended`);
    if (row.identity_id !== identityId) return invalid(`API session ${id} is another identity's`);
    if (row.access_until === null) return invalid(`the login of API session ${id} is not complete`);
    if (this.#apiSessions.isExpired(row)) return invalid(`API session ${id} has expired`);
    if (this.#ctx.tokens.revoked.has(jti)) return invalid(`token ${jti} is revoked`);
    if (isDisabled(row, this.#ctx.now())) return invalid(`identity ${identityId} is disabled`);
    return (await this.#isBound(row, request))
      ? row
      : invalid(`the certificate of the connection is none of API session ${id}`);
  }

  async #isBound(row: SessionOfToken, request: CertificateHolder): Promise<boolean> {
    if (!row.is_bound) return true;
    const { trustAnchors } = this.#ctx.pki;
    const { proxied, peerCertificates } = request;
    // A router cannot vouch for an administrator.
    if (proxied !== undefined && row.is_admin) return false;
    const presented = proxied === undefined ? peerCertificates : await this.#vouchedFor(proxied);
    const isOfNetwork = () => networkLeaf(presented, trustAnchors, this.#ctx.now()) !== undefined;
    return isBoundTo(row, presented[0], { at: this.#ctx.now(), isOfNetwork });
  }

  /** What a proxying router was presented, leaf first; nothing from any other proxy. */
  async #vouchedFor(proxied: ProxiedCertificates): Promise<readonly X509Certificate[]> {
    const router = networkLeaf(proxied.proxyCertificates, this.#ctx.pki.trustAnchors, this.#ctx.now());
    if (router === undefined || !(await this.#parts.proxyingRouters.has(fingerprint(router)))) return [];
    return passedOnChain(proxied) ?? [];
  }

  async #inUse(
    row: SessionOfToken,
    token: string,
    bearerTokens: readonly string[],
    access?: AccessToken,
  ): Promise<AuthenticatedSession> {
    this.#apiSessions.touch(row);
    row.last_activity_at = this.#ctx.now();
    return {
      id: row.id,
      kind: row.kind,
      token,
      ...(access && { access }),
      identityId: row.identity_id,
      isAdmin: row.is_admin,
      configTypes: row.config_types,
      lastActivityAt: row.last_activity_at,
      open: await this.#openFactors(row, bearerTokens),
    };
  }

  #openFactors(row: SessionOfToken, bearerTokens: readonly string[]): Promise<OpenFactors> {
    const state = {
      identityId: row.identity_id,
      externalId: row.external_id,
      isMfaVerified: row.is_mfa_verified,
      isMfaComplete: row.is_mfa_complete,
      requireTotp: row.require_totp,
      requiredSigner: row.required_signer,
    };
    return openFactors(state, bearerTokens, this.#parts.tokens);
  }
}

const MISSING: RefusedBearer = { refused: "missing" };

function invalid(detail: string): RefusedBearer {
  return { refused: "invalid", detail };
}

/** The session's own token is no factor. */
function externalOf(bearerTokens: readonly string[], own: string): readonly string[] {
  return bearerTokens.filter((token) => token !== own);
}
