import {
  type AnnouncedOidc,
  type ApiCredential,
  ApiError,
  ApiTransportError,
  type AuthQuery,
  type FactorAnswer,
  type FirstFactor,
  OidcLogin,
  type OidcTokens,
  TokenRefresh,
} from "@sallyport/api/client";
import { abortable, errorText } from "@sallyport/async";
import { createCsr, createKeyPair, type Identity, identityFromPem } from "@sallyport/wire";
import { AuthenticationError } from "../errors.ts";
import { withTrust } from "../identity-file.ts";
import { boundIdentityOf, keptSessionOf, type SessionStore, tokensOf } from "./kept-session.ts";
import { sessionCertificate } from "./legacy-login.ts";
import {
  type HeldLogin,
  identityOf,
  type LoginCredentials,
  type LoginEvents,
  type LoginParts,
  type LoginResult,
  programInfo,
  tlsOf,
  trustOf,
} from "./login.ts";

/**
 * Logs in by OpenID Connect: the session has an access token, which is replaced while it lives. A session that was kept by an earlier run goes on.
 *
 * @throws ApiError, ApiTransportError, AuthenticationError
 */
export async function oidcLogin(parts: LoginParts, announced: AnnouncedOidc, signal?: AbortSignal): Promise<HeldLogin> {
  return (await resumedLogin(parts, announced, signal)) ?? (await newLogin(parts, announced, signal));
}

/** The session of an earlier run; undefined when there is none that goes on. @throws ApiTransportError, ApiError when the controller cannot say */
async function resumedLogin(
  parts: LoginParts,
  { path }: AnnouncedOidc,
  signal: AbortSignal | undefined,
): Promise<HeldLogin | undefined> {
  const store = parts.mayResume ? storeOf(parts.credentials) : undefined;
  const kept = await store?.read();
  if (store === undefined || kept === undefined) return undefined;
  const caPem = trustOf(parts.credentials);
  const fields = { controller: parts.controllerUrl(), identity: kept.identityName };
  try {
    const bound = boundIdentityOf(kept, caPem);
    const tokens = await nextTokens({ parts, path, caPem, bound }, store, tokensOf(kept), signal);
    const session = await sessionOf({ parts, path, tokens, externalTokens: [], store, bound });
    parts.log.info(fields, "the session of an earlier run goes on");
    return session;
  } catch (error) {
    if (error instanceof ApiTransportError || (error instanceof ApiError && !isRefusal(error))) throw error;
    parts.log.info({ ...fields, reason: errorText(error) }, "the session of an earlier run does not go on");
    return undefined;
  }
}

function storeOf(credentials: LoginCredentials): SessionStore | undefined {
  return credentials.kind === "external" ? credentials.store : undefined;
}

/** A session that cannot be kept goes on all the same, and the next run logs in. */
async function keepForNextRun(
  parts: LoginParts,
  store: SessionStore,
  tokens: OidcTokens,
  bound?: Identity,
): Promise<void> {
  try {
    await store.write(keptSessionOf(tokens, bound));
  } catch (error) {
    const fields = { controller: parts.controllerUrl(), reason: errorText(error) };
    parts.log.warn(fields, "the session cannot be kept; the next start needs a login");
  }
}

function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && error.status < 500 && error.status !== 429;
}

interface ProviderAt {
  readonly parts: LoginParts;
  readonly path: string;
  readonly caPem: string;
  readonly bound: Identity | undefined;
}

async function withProvider<T>(at: ProviderAt, work: (provider: OidcLogin) => Promise<T>): Promise<T> {
  const baseUrl = at.parts.controllerUrl();
  return await OidcLogin.once({ baseUrl, path: at.path, ...tlsOf(at.caPem, at.bound) }, work);
}

/** What follows these tokens. It is kept at once where sessions are: a refresh token counts once. */
async function nextTokens(
  at: ProviderAt,
  store: SessionStore | undefined,
  tokens: OidcTokens,
  signal: AbortSignal | undefined,
): Promise<OidcTokens> {
  const next = await withProvider(at, (provider) => provider.refresh(tokens, signal));
  if (store !== undefined) await keepForNextRun(at.parts, store, next, at.bound);
  return next;
}

async function newLogin(
  parts: LoginParts,
  { path, takesCsr }: AnnouncedOidc,
  signal: AbortSignal | undefined,
): Promise<HeldLogin> {
  const { credentials, configTypes } = parts;
  const caPem = trustOf(credentials);
  const own = identityOf(credentials);
  const keyPem = own === undefined && takesCsr ? (await createKeyPair()).keyPem : undefined;
  const csr = keyPem && (await createCsr({ commonName: "api-session", subject: { O: "Sallyport" }, keyPem }));
  const details = { configTypes, ...programInfo(), ...(csr !== undefined && { csrPem: csr }) };
  return await OidcLogin.once({ baseUrl: parts.controllerUrl(), path, ...tlsOf(caPem, own) }, async (login) => {
    const externalTokens: string[] = [];
    const first = await login.start(await firstFactor(credentials), details, signal);
    const tokens = await allFactors(parts, first, externalTokens);
    const certPem = tokens.sessionCertPem;
    const bound = certPem === undefined || keyPem === undefined ? own : identityFromPem({ certPem, keyPem, caPem });
    // Tokens of other providers that go along with each call end, and cannot be had without the user.
    const store = externalTokens.length === 0 ? storeOf(credentials) : undefined;
    const session = await sessionOf({ parts, path, tokens, externalTokens, store, bound });
    if (store !== undefined) await keepForNextRun(parts, store, tokens, bound);
    return session;
  });
}

/** The session of a login. A controller that gives no certificate with it is asked for one, for router connections. */
async function sessionOf(o: Omit<OidcSessionOptions, "identity">): Promise<OidcSession> {
  const { parts, tokens, externalTokens, bound } = o;
  if (bound !== undefined) return new OidcSession({ ...o, identity: bound });
  const api = parts.api();
  api.setCredential(credentialOf(tokens, externalTokens));
  const identity = await sessionCertificate(api, tokens.identityId, trustOf(parts.credentials));
  return new OidcSession({ ...o, identity });
}

function credentialOf({ accessToken: token }: OidcTokens, externalTokens: readonly string[]): ApiCredential {
  return { kind: "bearer", token, externalTokens };
}

async function firstFactor(credentials: LoginCredentials): Promise<FirstFactor> {
  if (credentials.kind === "certificate") return { method: "cert" };
  if (credentials.kind === "external") return { method: "ext-jwt", token: await credentials.token() };
  const { username, password } = credentials;
  return { method: "password", username, password };
}

async function allFactors(parts: LoginParts, first: FactorAnswer, externalTokens: string[]): Promise<OidcTokens> {
  const controller = parts.controllerUrl();
  let answer = first;
  const queries = () => (answer.kind === "done" ? [] : answer.queries.map((query) => enrolled(query, controller)));
  await parts.factors.proveAll(controller, queries(), async (proof) => {
    if (answer.kind === "factors") answer = await answer.answer(proof);
    if ("token" in proof) externalTokens.push(proof.token);
    return queries();
  });
  if (answer.kind === "factors") throw new Error("a login with open factors was taken for a complete one");
  return answer.tokens;
}

function enrolled(query: AuthQuery, controller: string): AuthQuery {
  if (query.typeId === "EXT-JWT" || query.isTotpEnrolled === true) return query;
  const text = `${controller} asks for a one-time code, and this identity has no authenticator app: log in once in a browser, or with a program that enrolls one`;
  throw new AuthenticationError("SECOND_FACTOR_REQUIRED", text);
}

interface OidcSessionOptions {
  readonly parts: LoginParts;
  readonly path: string;
  readonly tokens: OidcTokens;
  readonly externalTokens: readonly string[];
  /** Where the session is kept: it outlives the program then. */
  readonly store: SessionStore | undefined;
  /** Whose certificate the session is bound to. */
  readonly bound: Identity | undefined;
  /** For router connections. */
  readonly identity: Identity;
}

class OidcSession implements HeldLogin {
  readonly #o: OidcSessionOptions;
  #tokens: OidcTokens;
  #credential: ApiCredential;
  #bound: Identity | undefined;
  #caPem: string;
  #identity: Identity;
  #refresh: TokenRefresh | undefined;
  /** The last exchange of tokens, until they are kept. */
  #renewing: Promise<unknown> = Promise.resolve();

  constructor(o: OidcSessionOptions) {
    this.#o = o;
    this.#tokens = o.tokens;
    this.#credential = credentialOf(o.tokens, o.externalTokens);
    this.#bound = o.bound;
    this.#identity = o.identity;
    this.#caPem = trustOf(o.parts.credentials);
  }

  get result(): LoginResult {
    const { accessToken: token, identityId, identityName } = this.#tokens;
    return { kind: "oidc", token, identityId, identityName, identity: this.#identity };
  }

  get credential(): ApiCredential {
    return this.#credential;
  }

  get boundIdentity(): Identity | undefined {
    return this.#bound;
  }

  keep(events: LoginEvents): void {
    const { log, controllerUrl } = this.#o.parts;
    this.#refresh = new TokenRefresh({
      tokens: this.#tokens,
      refresh: (tokens) => this.#renew(tokens),
      onRefreshed: (tokens) => {
        this.#tokens = tokens;
        this.#credential = credentialOf(tokens, this.#o.externalTokens);
        events.onToken();
      },
      onRefused: (error) => {
        const fields = { controller: controllerUrl(), reason: errorText(error) };
        log.info(fields, "the controller does not renew the tokens of the session");
        events.onGone();
      },
      onFailed: (error) => {
        const fields = { controller: controllerUrl(), reason: errorText(error) };
        log.warn(fields, "the tokens of the session could not be renewed; it is tried again");
      },
    });
  }

  async recover(): Promise<boolean> {
    try {
      return (await this.#refresh?.now()) !== undefined;
    } catch (error) {
      if (isRefusal(error)) return false;
      throw error;
    }
  }

  trust(caPem: string): void {
    this.#caPem = caPem;
    this.#bound = this.#bound && withTrust(this.#bound, caPem);
    this.#identity = withTrust(this.#identity, caPem);
  }

  stop(): void {
    this.#refresh?.stop();
  }

  async end(signal: AbortSignal): Promise<void> {
    // A refresh token counts once: a program that ended between its exchange and its keeping would need a login.
    if (this.#o.store !== undefined) await abortable(this.#renewing, signal);
    else await withProvider(this.#provider(), (provider) => provider.end(this.#tokens, signal));
  }

  #renew(tokens: OidcTokens): Promise<OidcTokens> {
    const { parts, store } = this.#o;
    const renewing = parts.reach((signal) => nextTokens(this.#provider(), store, tokens, signal));
    this.#renewing = renewing.catch(() => {});
    return renewing;
  }

  #provider(): ProviderAt {
    const { parts, path } = this.#o;
    return { parts, path, caPem: this.#caPem, bound: this.#bound };
  }
}
