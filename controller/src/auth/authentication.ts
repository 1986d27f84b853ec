import type { X509Certificate } from "node:crypto";
import { ApiError, apiError, type authenticatorPatchWithCurrent, fieldCause, unauthorized } from "@sallyport/api";
import { boundedLog, fingerprint } from "@sallyport/wire";
import { sql } from "kysely";
import type { z } from "zod";
import type { ModelContext } from "../model/context.ts";
import type { ExtJwtSignerRow } from "../model/identity/ext-jwt-signers.ts";
import { type IdentityRow, isDisabled } from "../model/identity/identities.ts";
import type { Model } from "../model/model.ts";
import type { ApiSessionRow } from "../model/session/api-sessions.ts";
import { Statement } from "../store/driver/statement.ts";
import { AuthenticationEvents } from "./authentication-events.ts";
import { networkLeaf } from "./client-certificate.ts";
import { type OpenFactors, openFactors } from "./factors.ts";
import { JwksCache } from "./jwt/jwks-cache.ts";
import { JwksFetcher } from "./jwt/jwks-fetcher.ts";
import { TokenCheck } from "./jwt/token-check.ts";
import { AttemptLimits, type Origin, originAt, originBehind } from "./limits/attempt-limits.ts";
import { ProxyingRouters } from "./limits/proxying-routers.ts";
import { isStillRight } from "./password.ts";
import { CertificateLogin } from "./primary/certificate-login.ts";
import { PasswordLogin } from "./primary/password-login.ts";
import type { Principal, Proof } from "./primary/proof.ts";
import { ProxiedCertificateLogin, type ProxiedCertificates } from "./primary/proxied-certificate-login.ts";
import { requireStanding } from "./primary/standing.ts";
import { TokenLogin } from "./primary/token-login.ts";
import { SessionRows } from "./session-rows.ts";
import type { AuthSettings } from "./settings.ts";

/** A primary authentication as it is asked for. */
export interface LoginRequest {
  readonly method: "password" | "cert" | "ext-jwt";
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly peerCertificates: readonly X509Certificate[];
  /** The router that passes the request on, and the client that it names. */
  readonly proxied?: ProxiedCertificates | undefined;
  /** Of the request's `Authorization` headers. */
  readonly bearerTokens: readonly string[];
  readonly remoteIp: string;
  /** Names or ids of config types, or `all`. */
  readonly configTypes?: readonly string[] | undefined;
  readonly envInfo?: Readonly<Record<string, string | undefined>> | undefined;
  readonly sdkInfo?: Readonly<Record<string, string | undefined>> | undefined;
}

/** Where a request comes from: its connection, and the client that a proxying router names. */
export type Source = Pick<LoginRequest, "remoteIp" | "proxied">;

/** A login that succeeded. */
export interface Login {
  readonly session: ApiSessionRow;
  readonly identity: IdentityRow;
  readonly open: OpenFactors;
  /** An administrator has asked for the certificate in use to be extended. */
  readonly isExtendRequested: boolean;
}

/** The session of a request, with what authorisation needs. */
export interface AuthenticatedSession {
  readonly id: string;
  readonly token: string;
  readonly identityId: string;
  readonly isAdmin: boolean;
  readonly configTypes: readonly string[];
  readonly lastActivityAt: Date;
  readonly open: OpenFactors;
}

type OwnChange = z.output<typeof authenticatorPatchWithCurrent>;

/** The one row that a request reads before anything else. */
interface SessionOfToken {
  id: string;
  token: string;
  config_types: string[];
  last_activity_at: Date;
  is_mfa_complete: boolean;
  identity_id: string;
  external_id: string | null;
  is_admin: boolean;
  disabled_at: Date | null;
  disabled_until: Date | null;
  require_totp: boolean;
  is_mfa_verified: boolean;
  required_signer: ExtJwtSignerRow | null;
}

const SESSION_OF_TOKEN = new Statement<SessionOfToken>(`
      SELECT a.id, a.token, a.config_types, a.last_activity_at, a.is_mfa_complete,
        i.id AS identity_id, i.external_id, i.is_admin, i.disabled_at, i.disabled_until,
        p.require_totp, coalesce(m.is_verified, false) AS is_mfa_verified, row_to_json(s) AS required_signer
      FROM api_session a
        JOIN identity i ON i.id = a.identity_id
        JOIN auth_policy p ON p.id = i.auth_policy_id
        LEFT JOIN mfa m ON m.identity_id = i.id
        LEFT JOIN ext_jwt_signer s ON s.id = p.require_ext_jwt_signer
      WHERE a.token = $1`);

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * Primary authentication and the look-up of sessions (docs/protocol/authentication.md). To the caller every failed login looks the same;
 * the reason is in the error's `detail`, for the log.
 */
export class Authentication {
  readonly #ctx: ModelContext;
  readonly #model: Model;
  readonly #settings: AuthSettings;
  readonly #limits: AttemptLimits;
  readonly #proxyingRouters: ProxyingRouters;
  readonly #events: AuthenticationEvents;
  readonly #tokens: TokenCheck;
  readonly #byPassword: PasswordLogin;
  readonly #byCertificate: CertificateLogin;
  readonly #byProxiedCertificate: ProxiedCertificateLogin;
  readonly #byToken: TokenLogin;
  readonly #sessions: SessionRows<SessionOfToken>;

  constructor(ctx: ModelContext, model: Model, settings: AuthSettings) {
    this.#ctx = ctx;
    this.#model = model;
    this.#settings = settings;
    this.#limits = new AttemptLimits(settings);
    this.#events = new AuthenticationEvents(ctx.events, ctx.log);
    const fetcher = new JwksFetcher(settings.jwks);
    this.#tokens = new TokenCheck(new JwksCache((endpoint) => fetcher.fetch(endpoint), boundedLog(ctx.log)), ctx.now);
    this.#byPassword = new PasswordLogin(ctx, model);
    this.#byCertificate = new CertificateLogin(ctx);
    const byProxied = new ProxiedCertificateLogin(ctx, model.routers, this.#byCertificate);
    this.#byProxiedCertificate = byProxied;
    this.#proxyingRouters = new ProxyingRouters((print) => byProxied.mayPassOn(print));
    this.#byToken = new TokenLogin(ctx, this.#tokens);
    this.#sessions = new SessionRows(ctx.store.changes, (token) => this.#sessionRow(token));
  }

  /**
   * Counts an attempt without a session: for the address, or, when a router of the network passes it on, for the client that it names and for the router.
   * @returns where it comes from
   * @throws ApiError 429 when there were too many
   */
  async admit(source: Source): Promise<Origin> {
    const origin = await this.#originOf(source);
    this.#limits.admit(origin);
    return origin;
  }

  /** A caller without a certificate of the network costs no statement; one with a certificate costs one in a few seconds. */
  async #originOf({ remoteIp, proxied }: Source): Promise<Origin> {
    if (proxied?.clientIp === undefined) return originAt(remoteIp);
    const leaf = networkLeaf(proxied.proxyCertificates, this.#ctx.pki.trustAnchors);
    if (leaf === undefined) return originAt(remoteIp);
    const print = fingerprint(leaf);
    return (await this.#proxyingRouters.has(print)) ? originBehind(print, proxied.clientIp) : originAt(remoteIp);
  }

  /** @throws ApiError 401 `INVALID_AUTH`, 400 for missing credentials, 429 when there are too many attempts or logins under way */
  async login(request: LoginRequest): Promise<Login> {
    try {
      return await this.#login(request);
    } catch (error) {
      this.#events.failed(request, error);
      throw error;
    }
  }

  async #login(request: LoginRequest): Promise<Login> {
    const proof = await this.#proveWithinLimits(request);
    const { principal } = proof;
    const configTypes = await this.#configTypes(request.configTypes ?? []);
    const open = await openFactors(
      {
        identityId: principal.identity.id,
        externalId: principal.identity.external_id,
        isMfaVerified: principal.isMfaVerified,
        isMfaComplete: false,
        requireTotp: principal.policy.require_totp,
        requiredSigner: await this.#requiredSigner(principal),
      },
      request.bearerTokens,
      this.#tokens,
    );
    const session = await this.#begin(request, proof, configTypes);
    this.#events.succeeded(request, proof);
    return { session, identity: principal.identity, open, isExtendRequested: proof.isExtendRequested };
  }

  /** @throws ApiError 401 when identity or credential were withdrawn meanwhile */
  async #begin(request: LoginRequest, proof: Proof, configTypes: readonly string[]): Promise<ApiSessionRow> {
    const { identity } = proof.principal;
    return this.#ctx.store.transaction(async (trx) => {
      await requireStanding(trx, proof, this.#ctx.now());
      const envInfo = textsOf(request.envInfo);
      const sdkInfo = textsOf(request.sdkInfo);
      if (envInfo !== undefined || sdkInfo !== undefined) {
        await this.#model.identities.saveInfo(trx, identity.id, {
          envInfo: envInfo ?? {},
          sdkInfo: sdkInfo ?? {},
        });
      }
      const made = await this.#model.apiSessions.insert(trx, {
        identityId: identity.id,
        authenticatorId: proof.authenticatorId,
        ipAddress: request.remoteIp,
        configTypes,
        certFingerprints: proof.certFingerprints,
        improperClientCertChain: proof.improperClientCertChain,
      });
      await this.#model.apiSessions.keepNewest(trx, made, this.#settings.maxApiSessions);
      return made;
    });
  }

  /**
   * The live session of a token; undefined for anything that is none. Runs for every request: at most one statement, whatever factors there are.
   * @throws ApiError 401 when its identity is disabled
   */
  async sessionOf(token: string, bearerTokens: readonly string[]): Promise<AuthenticatedSession | undefined> {
    if (!UUID.test(token)) return undefined;
    let row = await this.#sessions.find(token);
    if (row !== undefined && this.#model.apiSessions.isExpired(row)) {
      // Others than us may have noted activity.
      this.#sessions.forget(token);
      row = await this.#sessions.find(token);
    }
    if (row === undefined || this.#model.apiSessions.isExpired(row)) return undefined;
    if (isDisabled(row, this.#ctx.now())) throw unauthorized(`identity ${row.identity_id} is disabled`);
    this.#model.apiSessions.touch(row.id);
    row.last_activity_at = this.#ctx.now();
    const open = await openFactors(
      {
        identityId: row.identity_id,
        externalId: row.external_id,
        isMfaVerified: row.is_mfa_verified,
        isMfaComplete: row.is_mfa_complete,
        requireTotp: row.require_totp,
        requiredSigner: row.required_signer,
      },
      bearerTokens,
      this.#tokens,
    );
    return {
      id: row.id,
      token: row.token,
      identityId: row.identity_id,
      isAdmin: row.is_admin,
      configTypes: row.config_types,
      lastActivityAt: row.last_activity_at,
      open,
    };
  }

  /**
   * A new user name or password for one's own authenticator. A wrong current password counts like a failed login. A new password ends the API sessions
   * made with the old one, except the caller's.
   * @throws ApiError 401 for that, 404 for another identity's authenticator, 409 for a certificate, 429 after too many wrong ones
   */
  async changeOwn(
    id: string,
    { identityId, apiSessionId }: { readonly identityId: string; readonly apiSessionId: string },
    { currentPassword, ...change }: OwnChange,
    source: Source,
  ): Promise<void> {
    const row = await this.#model.authenticators.owned(this.#ctx.store.db, id, identityId);
    if (row.method !== "updb") throw apiError("CAN_NOT_UPDATE_AUTHENTICATOR");
    const subject = userSubject(row.username ?? id);
    const origin = await this.#originOf(source);
    this.#limits.requireFewFailures(subject, origin);
    const password = await this.#byPassword.confirm(row, currentPassword);
    if (password === undefined) {
      this.#limits.countFailure(subject, origin);
      throw notCurrent();
    }
    await this.#model.authenticators.update(id, change, {
      keptSession: apiSessionId,
      requireUnchanged: async (storedHash) => {
        if (!(await isStillRight(password, storedHash))) throw notCurrent();
      },
    });
  }

  async #sessionRow(token: string): Promise<SessionOfToken | undefined> {
    return SESSION_OF_TOKEN.first(this.#ctx.store.db, [token]);
  }

  async #proveWithinLimits(request: LoginRequest): Promise<Proof> {
    const own =
      request.method === "cert" ? networkLeaf(request.peerCertificates, this.#ctx.pki.trustAnchors) : undefined;
    // A flood from the same address has no such certificate.
    if (own !== undefined) {
      this.#limits.admitCertificate(fingerprint(own));
      return this.#prove(request);
    }
    const origin = await this.admit(request);
    const subject = guessable(request);
    if (subject === undefined) return this.#prove(request);
    this.#limits.requireFewFailures(subject, origin);
    try {
      return await this.#prove(request);
    } catch (error) {
      if (error instanceof ApiError && error.code === "INVALID_AUTH") this.#limits.countFailure(subject, origin);
      throw error;
    }
  }

  #prove(request: LoginRequest): Promise<Proof> {
    switch (request.method) {
      case "password":
        return this.#byPassword.prove(request.username, request.password);
      case "cert":
        return request.proxied === undefined
          ? this.#byCertificate.prove(request.peerCertificates)
          : this.#byProxiedCertificate.prove(request.proxied);
      case "ext-jwt":
        return this.#byToken.prove(request.bearerTokens);
    }
  }

  async #requiredSigner({ policy }: Principal): Promise<ExtJwtSignerRow | null> {
    if (policy.require_ext_jwt_signer === null) return null;
    const row = await this.#ctx.store.db
      .selectFrom("ext_jwt_signer")
      .selectAll()
      .where("id", "=", policy.require_ext_jwt_signer)
      .executeTakeFirst();
    return row ?? null;
  }

  /** Config types by name or id, as ids; unknown ones are left out. */
  async #configTypes(namesOrIds: readonly string[]): Promise<string[]> {
    if (namesOrIds.length === 0) return [];
    if (namesOrIds.includes("all")) return ["all"];
    const { rows } = await sql<{ id: string }>`SELECT id FROM config_type
      WHERE id = ANY (${namesOrIds}::text[]) OR name = ANY (${namesOrIds}::text[]) ORDER BY id`.execute(
      this.#ctx.store.db,
    );
    return rows.map((row) => row.id);
  }
}

function notCurrent(): Error {
  return apiError("UNAUTHORIZED", fieldCause("currentPassword", "currentPassword is not the current password"));
}

/**
 * The subject of an attempt, where repeated guesses could succeed. Signatures cannot be guessed, and a limit on their subjects would let any client lock
 * out those who sign in over the same issuer.
 */
function guessable(request: LoginRequest): string | undefined {
  return request.method === "password" ? userSubject(request.username ?? "") : undefined;
}

function userSubject(username: string): string {
  return `user ${username}`;
}

function textsOf(info: Readonly<Record<string, string | undefined>> | undefined): Record<string, string> | undefined {
  if (info === undefined) return undefined;
  const given = Object.entries(info).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(given);
}
