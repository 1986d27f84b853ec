import type { X509Certificate } from "node:crypto";
import { apiError, type authenticatorPatchWithCurrent, fieldCause } from "@sallyport/api";
import { boundedLog, fingerprint } from "@sallyport/wire";
import { sql } from "kysely";
import type { z } from "zod";
import type { Db, ModelContext } from "../model/context.ts";
import type { ExtJwtSignerRow } from "../model/identity/ext-jwt-signers.ts";
import type { IdentityRow } from "../model/identity/identities.ts";
import type { Model } from "../model/model.ts";
import type { ApiSessionRow, NewApiSession } from "../model/session/api-sessions.ts";
import { AuthenticationEvents, type LoginAttempt } from "./authentication-events.ts";
import { networkLeaf } from "./client-certificate.ts";
import {
  type AuthenticatedSession,
  type BearerRequest,
  type CertificateHolder,
  CurrentSessions,
  type EarlierSession,
  type RefusedBearer,
} from "./current-sessions.ts";
import { type OpenFactors, openFactors } from "./factors.ts";
import { JwksCache } from "./jwt/jwks-cache.ts";
import { JwksFetcher, type JwksFetcherOptions } from "./jwt/jwks-fetcher.ts";
import { TokenCheck } from "./jwt/token-check.ts";
import {
  AttemptLimits,
  type AttemptRates,
  type Origin,
  originAt,
  originBehind,
  ProxyingRouters,
} from "./limits/attempt-limits.ts";
import { GuessLimits } from "./limits/guess-limits.ts";
import { isStillRight } from "./password.ts";
import { CertificateLogin } from "./primary/certificate-login.ts";
import { PasswordLogin } from "./primary/password-login.ts";
import { type Principal, type Proof, requireStanding } from "./primary/proof.ts";
import { ProxiedCertificateLogin, type ProxiedCertificates } from "./primary/proxied-certificate-login.ts";
import { type ShownSigner, TokenLogin } from "./primary/token-login.ts";
import type { CheckLimit } from "./tokens/own-tokens.ts";

/** What an operator decides about authentication (`auth` in controller.yml). */
export interface AuthSettings {
  readonly rateLimits: AttemptRates;
  /** API sessions of one identity at once; a further one ends the one that is idle for longest. */
  readonly maxApiSessions: number;
  readonly jwks: JwksFetcherOptions;
}

/** A primary authentication as a client asks for it. */
export interface LoginRequest {
  readonly method: "password" | "cert" | "ext-jwt";
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly peerCertificates: readonly X509Certificate[];
  readonly proxied?: ProxiedCertificates | undefined;
  /** Of the request's `Authorization` headers. */
  readonly bearerTokens: readonly string[];
  readonly remoteIp: string;
  /** Names or ids of config types, or `all`. */
  readonly configTypes?: readonly string[] | undefined;
  readonly envInfo?: Readonly<Record<string, string | undefined>> | undefined;
  readonly sdkInfo?: Readonly<Record<string, string | undefined>> | undefined;
  /** The session is one of an OIDC login that is not complete. */
  readonly as?: PendingLogin | undefined;
}

/** A login that goes on after its first factor. */
interface PendingLogin {
  readonly kind: "oidc";
  /** When the session ends unless the login is completed. */
  readonly expiresAt: Date;
  /** In the transaction that makes the session. */
  onMade(trx: Db, session: NewApiSession, proof: LoginProof, open: OpenFactors): Promise<void>;
}

/** Whom a login has proved, and by what. */
export interface LoginProof extends Pick<Proof, "authenticatorId" | "certFingerprints" | "isExtendRequested"> {
  readonly identity: IdentityRow;
}

/** Where a request comes from: its connection, and the client that a proxying router names. */
type Source = Pick<LoginRequest, "remoteIp" | "proxied">;

/** A login that succeeded. */
export interface Login {
  readonly session: ApiSessionRow;
  readonly open: OpenFactors;
  readonly proof: LoginProof;
}

/**
 * Primary authentication and the look-up of sessions (docs/protocol/authentication.md). To callers every failed login looks the same; the reason is in the
 * error's `detail`, for the log.
 */
export class Authentication {
  readonly #ctx: ModelContext;
  readonly #model: Model;
  readonly #settings: AuthSettings;
  readonly #limits: AttemptLimits;
  readonly #guesses: GuessLimits;
  readonly #proxyingRouters: ProxyingRouters;
  readonly #events: AuthenticationEvents;
  /** Of tokens of external signers. */
  readonly tokenCheck: TokenCheck;
  readonly #byPassword: PasswordLogin;
  readonly #byCertificate: CertificateLogin;
  readonly #byProxiedCertificate: ProxiedCertificateLogin;
  readonly #byToken: TokenLogin;
  readonly #sessions: CurrentSessions;

  /** @param onRead called for each row of a session that has to be read */
  constructor(ctx: ModelContext, model: Model, settings: AuthSettings, onRead?: () => void) {
    this.#ctx = ctx;
    this.#model = model;
    this.#settings = settings;
    this.#limits = new AttemptLimits(settings.rateLimits, ctx.liveReplicas);
    this.#guesses = new GuessLimits(settings.rateLimits);
    this.#events = new AuthenticationEvents(ctx.events, ctx.log);
    const fetcher = new JwksFetcher(settings.jwks);
    this.tokenCheck = new TokenCheck(
      new JwksCache((endpoint) => fetcher.fetch(endpoint), boundedLog(ctx.log)),
      ctx.now,
    );
    this.#byPassword = new PasswordLogin(ctx, model);
    this.#byCertificate = new CertificateLogin(ctx);
    const byProxied = new ProxiedCertificateLogin(ctx, model.routers, this.#byCertificate);
    this.#byProxiedCertificate = byProxied;
    this.#proxyingRouters = new ProxyingRouters(ctx.store.changes, (print) => byProxied.mayPassOn(print));
    this.#byToken = new TokenLogin(ctx, this.tokenCheck);
    this.#sessions = new CurrentSessions(ctx, model.apiSessions, {
      tokens: this.tokenCheck,
      proxyingRouters: this.#proxyingRouters,
      checkLimit: (request) => this.checkLimit(request),
      onRead,
    });
  }

  /**
   * Counts an attempt without a session for its address, or for the router that passes it on and the client that the router names.
   * @throws ApiError 429 when there were too many
   */
  async admit(source: Source): Promise<Origin> {
    const origin = await this.originOf(source);
    this.#limits.admit(origin);
    return origin;
  }

  /**
   * Wrong signatures count as attempts of their caller; one with too many attempts has no signature checked. A caller with a certificate of the network is not
   * refused for what others at its address have done: it could not refresh its tokens.
   */
  checkLimit(source: Source & Pick<LoginRequest, "peerCertificates">): CheckLimit {
    const origin = async () =>
      this.#limits.originWithRoom(await this.originOf(source), () => this.networkPrint(source.peerCertificates));
    return {
      before: async () => this.#limits.requireRoom(await origin()),
      wrong: async () => this.#limits.admit(await origin()),
    };
  }

  /** The fingerprint of the certificate that a TLS client presented, if this network has issued it. */
  networkPrint(presented: readonly X509Certificate[]): string | undefined {
    const leaf = networkLeaf(presented, this.#ctx.pki.trustAnchors, this.#ctx.now());
    return leaf && fingerprint(leaf);
  }

  /** Where attempts of a caller are counted. Asks the database at most once in a few seconds, and only for a caller with a certificate of the network. */
  async originOf({ remoteIp, proxied }: Source): Promise<Origin> {
    if (proxied?.clientIp === undefined) return originAt(remoteIp);
    const leaf = networkLeaf(proxied.proxyCertificates, this.#ctx.pki.trustAnchors, this.#ctx.now());
    if (leaf === undefined) return originAt(remoteIp);
    const print = fingerprint(leaf);
    return (await this.#proxyingRouters.has(print)) ? originBehind(print, proxied.clientIp) : originAt(remoteIp);
  }

  /** Tells operators of an attempt that was decided elsewhere. */
  noteFailure(attempt: LoginAttempt, error: unknown): void {
    this.#events.failed(attempt, error);
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
      this.tokenCheck,
    );
    const session = await this.#begin(request, { proof, open, configTypes });
    this.#events.succeeded(request, proof);
    return { session, open, proof: shownProof(proof) };
  }

  /** @throws ApiError 401 when identity or credential were withdrawn meanwhile */
  async #begin(
    request: LoginRequest,
    { proof, open, configTypes }: { readonly proof: Proof; readonly open: OpenFactors; readonly configTypes: string[] },
  ): Promise<ApiSessionRow> {
    const { identity } = proof.principal;
    return this.#ctx.store.transaction(async (trx) => {
      await requireStanding(trx, proof, this.#ctx.now());
      const envInfo = textsOf(request.envInfo);
      const sdkInfo = textsOf(request.sdkInfo);
      if (envInfo !== undefined || sdkInfo !== undefined) {
        await this.#model.identities.saveInfo(trx, identity.id, { envInfo: envInfo ?? {}, sdkInfo: sdkInfo ?? {} });
      }
      const { authenticatorId, certFingerprints, improperClientCertChain } = proof;
      const made = await this.#model.apiSessions.insert(trx, {
        identityId: identity.id,
        ipAddress: request.remoteIp,
        ...{ authenticatorId, configTypes, certFingerprints, improperClientCertChain, as: request.as },
      });
      await request.as?.onMade(trx, made, shownProof(proof), open);
      await this.#model.apiSessions.keepNewest(trx, made, this.#settings.maxApiSessions);
      return made;
    });
  }

  /** The live session of a token. Runs for every request, with at most one statement. @throws ApiError 401 when its identity is disabled */
  sessionOf(token: string, bearerTokens: readonly string[]): Promise<AuthenticatedSession | undefined> {
    return this.#sessions.ofToken(token, bearerTokens);
  }

  /**
   * The live session of the access token among the bearer tokens.
   * @throws ApiError 429 for a token that is not known yet, after too many attempts from where it comes
   */
  sessionOfBearer(request: BearerRequest): Promise<AuthenticatedSession | RefusedBearer> {
    return this.#sessions.ofBearer(request);
  }

  /** The session of {@link sessionOfBearer} as it is now: its token may have ended, as long as the session has a newer one. */
  sessionAgain(before: EarlierSession, request: BearerRequest): Promise<AuthenticatedSession | RefusedBearer> {
    return this.#sessions.again(before, request);
  }

  /**
   * The factors that a login by OIDC still has open after the first one.
   * @throws ApiError 401 when its session has ended or its identity is disabled
   */
  finish(apiSessionId: string, bearerTokens: readonly string[]): Promise<OpenFactors> {
    return this.#sessions.openFactorsOf(apiSessionId, bearerTokens);
  }

  /** Whether the connection of a request has a certificate that the tokens of a session of kind `oidc` need; true when they need none. */
  holdsCertificateOf(apiSessionId: string, request: CertificateHolder): Promise<boolean> {
    return this.#sessions.holdsCertificateOf(apiSessionId, request);
  }

  /** The issuers of external tokens that count. They are public. */
  enabledSigners(): Promise<readonly ShownSigner[]> {
    return this.#byToken.enabledSigners();
  }

  /**
   * Changes user name or password of the caller's own authenticator. A new password ends the API sessions made with the old one, except the caller's.
   * @throws ApiError 401 for a wrong current password, which counts like a failed login; 404, 409 for a certificate, 429 after too many wrong ones
   */
  async changeOwn(
    id: string,
    { identityId, apiSessionId }: { readonly identityId: string; readonly apiSessionId: string },
    { currentPassword, ...change }: z.output<typeof authenticatorPatchWithCurrent>,
    source: Source,
  ): Promise<void> {
    const row = await this.#model.authenticators.owned(this.#ctx.store.db, id, identityId);
    if (row.method !== "updb") throw apiError("CAN_NOT_UPDATE_AUTHENTICATOR");
    const guesses = this.#guesses.of(userSubject(row.username ?? id), await this.originOf(source));
    await guesses.requireRoom(this.#ctx.store.db);
    const password = await this.#byPassword.confirm(row, currentPassword, guesses);
    if (password === undefined) throw notCurrent();
    await this.#model.authenticators.update(id, change, {
      keptSession: apiSessionId,
      requireUnchanged: async (storedHash) => {
        if (!(await isStillRight(password, storedHash))) throw notCurrent();
      },
    });
  }

  async #proveWithinLimits(request: LoginRequest): Promise<Proof> {
    // Signatures cannot be guessed, and a limit on failures would let any client lock out users of an issuer.
    switch (request.method) {
      case "password": {
        const { username, password } = request;
        const guesses = this.#guesses.of(userSubject(username ?? ""), await this.admit(request));
        return this.#byPassword.prove(username, password, guesses);
      }
      case "cert": {
        // A flood from the same address has no certificate of the network.
        const own = this.networkPrint(request.peerCertificates);
        if (own === undefined) await this.admit(request);
        else this.#limits.admitCertificate(own);
        return request.proxied === undefined
          ? this.#byCertificate.prove(request.peerCertificates)
          : this.#byProxiedCertificate.prove(request.proxied);
      }
      case "ext-jwt":
        await this.admit(request);
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
    const query = sql<{ id: string }>`SELECT id FROM config_type
      WHERE id = ANY (${namesOrIds}::text[]) OR name = ANY (${namesOrIds}::text[]) ORDER BY id`;
    const { rows } = await query.execute(this.#ctx.store.db);
    return rows.map((row) => row.id);
  }
}

function shownProof({ principal, authenticatorId, certFingerprints, isExtendRequested }: Proof): LoginProof {
  return { identity: principal.identity, authenticatorId, certFingerprints, isExtendRequested };
}

function notCurrent(): Error {
  return apiError("UNAUTHORIZED", fieldCause("currentPassword", "currentPassword is not the current password"));
}

function userSubject(username: string): string {
  return `user ${username}`;
}

function textsOf(info: Readonly<Record<string, string | undefined>> | undefined): Record<string, string> | undefined {
  const given = Object.entries(info ?? {}).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return info && Object.fromEntries(given);
}
