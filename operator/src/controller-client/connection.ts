import type { operations } from "@sallyport/api";
import {
  type AnnouncedOidc,
  type ApiClient,
  ApiError,
  ApiTransportError,
  announcedOidc,
  type CallOptions,
  type Calls,
  type ClientOptions,
  ROUTES,
} from "@sallyport/api/client";
import { abortable, backoffDelay, jittered } from "@sallyport/async";
import { controllerTrust, type Logger } from "@sallyport/wire";
import { Endpoint, mayMove, type Patience } from "./endpoint.ts";
import { NetworkNotReadyError, OperationForbiddenError, retryAfterMs } from "./errors.ts";
import { type Credentials, type HeldSession, oidcSession, type SessionAnswer } from "./oidc-session.ts";
import { byProxy } from "./proxies.ts";
import { LoginGate, RequestPace } from "./request-limits.ts";

export interface ConnectionOptions {
  /** For the log and for messages: `namespace/name`. */
  readonly name: string;
  /** `https://host:port`, further path segments don't count; tried in order. */
  readonly endpoints: readonly [string, ...string[]];
  /** PEM bundle of the authorities to trust; the system's when absent. */
  readonly ca?: string | undefined;
  /** Name that the server is asked for and has to have, where that is not the host of the endpoint. */
  readonly servername?: string | undefined;
  readonly credentials: Credentials;
  /** One request, milliseconds. */
  readonly requestTimeoutMs: number;
  readonly maxRequestsPerSecond: number;
  readonly log: Logger;
  /** Every request, as it ends; `status` 0: no answer came. A login by OIDC, a refresh and a logout count as one each, called `oidc`. */
  readonly onRequest?: (operation: string, status: number, seconds: number) => void;
  /**
   * The network answers again after it didn't, or took a login after it refused one: what waited for it should be looked at. Not told more often than
   * `recoveredMs` says: a network that breaks off one sort of request recovers with every other.
   */
  readonly onRecovered?: () => void;
  /** Called before every request that may change something, and before every login; what it throws ends the call. */
  readonly mayAct?: (() => void) | undefined;
  readonly times?: Partial<ConnectionTimes>;
  /** When a controller counts as one that hangs. */
  readonly patience?: Patience;
  /** Shared with other connections that use the same credentials; one of its own when absent. */
  readonly gate?: LoginGate;
}

/** Milliseconds. */
export interface ConnectionTimes {
  /** From a refused login to the one other attempt. */
  readonly refusedLoginMs: number;
  /** From a 429 without `retry-after` to the next request; doubles up to 30 s. */
  readonly limitedMs: number;
  /** Longer pauses are not waited for inside of a call. */
  readonly maxWaitMs: number;
  /** Between two times that it is told that the network answers again. */
  readonly recoveredMs: number;
}

/** From a refused login to the one other attempt, unless told otherwise. */
export const REFUSED_LOGIN_MS = 60_000;

const TIMES: ConnectionTimes = {
  refusedLoginMs: REFUSED_LOGIN_MS,
  limitedMs: 1_000,
  maxWaitMs: 10_000,
  recoveredMs: 10_000,
};
const MAX_LIMITED_MS = 30_000;
const ATTEMPTS_WHEN_LIMITED = 3;
/** Sessions that one call begins because the one before has ended. */
const MAX_RENEWALS = 3;

const MANAGEMENT = ROUTES.management.routes;

type ApiSession = Pick<ApiClient<"management">, "authenticate" | "deleteCurrentAPISession">;
/** The Management API of one network: the typed calls, with session, pace and other endpoints taken care of. */
export type ManagementClient = Omit<Calls<(typeof operations)["management"]>, keyof ApiSession>;

/** One client, one session and one pace for everything that the operator asks of a network. */
export class NetworkConnection {
  readonly client: ManagementClient;
  readonly #o: ConnectionOptions;
  readonly #times: ConnectionTimes;
  readonly #endpoints: readonly Endpoint[];
  readonly #pace: RequestPace;
  readonly #gate: LoginGate;
  readonly #closing = new AbortController();
  /** Index of the endpoint that is asked first. */
  #endpoint = 0;
  #session: HeldSession | undefined;
  #login: Promise<HeldSession> | undefined;
  /** 429 in a row. */
  #limited = 0;
  #isFailing = false;
  /** When it was last told that the network answers again, and the timer that tells it next. */
  #toldAt = Number.NEGATIVE_INFINITY;
  #recoveryTimer: NodeJS.Timeout | undefined;

  constructor(o: ConnectionOptions) {
    this.#o = o;
    this.#times = { ...TIMES, ...o.times };
    const { credentials } = o;
    this.#endpoints = o.endpoints.map((baseUrl) => new Endpoint(this.#place(baseUrl), o.patience));
    this.#pace = new RequestPace(o.maxRequestsPerSecond);
    this.#gate = o.gate ?? new LoginGate(this.#times.refusedLoginMs, credentials.method === "password");
    this.client = Object.fromEntries(
      Object.keys(MANAGEMENT).map((id) => [
        id,
        (input: object = {}, options: CallOptions = {}) => this.#call(id, input, options),
      ]),
    ) as unknown as ManagementClient;
  }

  /** Tries the credentials again although they were refused: a user asked for it. */
  retryLogin(): void {
    this.#gate.open();
  }

  #place(baseUrl: string): ClientOptions {
    const { credentials, requestTimeoutMs: timeoutMs, ca = "", servername } = this.#o;
    const certificate = credentials.method === "cert" ? { cert: credentials.cert, key: credentials.key } : {};
    return { baseUrl, ...certificate, timeoutMs, ...byProxy(), tls: { ...controllerTrust(ca), servername } };
  }

  /** Logs out, if a session is open and the controller answers soon, and ends all connections. Calls under way fail. */
  async close(): Promise<void> {
    const session = this.#session;
    clearTimeout(this.#recoveryTimer);
    this.#closing.abort(new NetworkNotReadyError("NetworkNotReady", `the connection to ${this.#o.name} was closed`));
    if (session !== undefined) {
      session.stop();
      await session.end(AbortSignal.timeout(2_000)).catch((err: unknown) => {
        this.#o.log.debug({ network: this.#o.name, err }, "the session was left to end by itself");
      });
    }
    for (const each of this.#endpoints) each.close();
  }

  async #call(id: string, input: object, options: CallOptions): Promise<unknown> {
    const signal = this.#signal(options.signal);
    let renewals = 0;
    for (let attempt = 1; ; attempt++) {
      const { isPublic = false } = MANAGEMENT[id] ?? {};
      const session = isPublic ? undefined : await this.#begun(signal);
      const headers = { ...options.headers, ...session?.headers() };
      try {
        return await this.#send(id, input, { signal, headers });
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.status === 429) {
          if (attempt >= ATTEMPTS_WHEN_LIMITED) throw this.#limitedError(error);
        } else if (error.status === 401 && session !== undefined) {
          if (renewals > 0 && (await this.#isInForce(session, signal))) throw new OperationForbiddenError(id, error);
          // Others may have noticed before, and have a new session already.
          this.#drop(session);
          if (renewals === MAX_RENEWALS) throw this.#endedError(error);
          renewals += 1;
        } else throw error;
      }
    }
  }

  /** Whether a session that was refused for one operation is good for another: that one needs no right. */
  async #isInForce(session: HeldSession, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#send("getCurrentAPISession", {}, { signal, headers: session.headers() });
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return false;
      throw error;
    }
  }

  #endedError(cause: ApiError): NetworkNotReadyError {
    const message = `the network ${this.#o.name} ends each session of the operator as soon as it has begun: an administrator may be revoking them, or clocks differ`;
    const retryAfterMs = this.#times.refusedLoginMs;
    return new NetworkNotReadyError("NetworkUnauthorized", message, { retryAfterMs, cause });
  }

  #drop(session: HeldSession): void {
    session.stop();
    if (this.#session === session) this.#session = undefined;
  }

  /** The session; one login at a time, however many ask. */
  async #begun(signal: AbortSignal): Promise<HeldSession> {
    signal.throwIfAborted();
    if (this.#session !== undefined) return this.#session;
    this.#login ??= this.#logIn().finally(() => {
      this.#login = undefined;
    });
    return await abortable(this.#login, signal);
  }

  async #logIn(): Promise<HeldSession> {
    const { closed } = this.#gate;
    if (closed !== undefined) throw this.#refusedError(closed.reason, closed.forMs);
    const { credentials, name, log } = this.#o;
    const { method } = credentials;
    const signal = this.#closing.signal;
    try {
      const version = (await this.#send("listVersion", {}, { signal }, true)) as Awaited<
        ReturnType<ManagementClient["listVersion"]>
      >;
      const oidc = announcedOidc(version.data);
      const { session, identity, isOpen } = await (oidc === undefined
        ? this.#legacy(signal)
        : this.#oidc(oidc, signal));
      if (isOpen) {
        const reason = `the login of ${identity ?? "the operator's identity"} needs a second factor, which the operator has not: give the identity an auth policy without one`;
        this.#gate.refused(reason);
        throw this.#refusedError(reason, this.#gate.closed?.forMs);
      }
      this.#gate.accepted();
      this.#session = session;
      this.#recovered();
      const login = oidc === undefined ? "legacy" : "oidc";
      log.info({ network: name, identity, method, login }, "logged in to the network");
      return session;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 429) throw this.#limitedError(error);
      if (error.status >= 500) throw error;
      this.#isFailing = true;
      const reason = `${error.code}: ${error.message}`;
      if (error.status !== 401 && error.status !== 403) {
        const message = `the server of the network ${name} answers a login as no controller does (${error.status} ${reason}): the address should be the base of a controller's Management API`;
        throw new NetworkNotReadyError("ControllerUnavailable", message, { cause: error });
      }
      this.#gate.refused(reason);
      log.warn({ network: name, method, code: error.code }, "the network refused the login");
      throw this.#refusedError(reason, this.#gate.closed?.forMs, error);
    }
  }

  async #legacy(signal: AbortSignal): Promise<SessionAnswer> {
    const { credentials } = this.#o;
    const { method } = credentials;
    const body = method === "password" ? { username: credentials.username, password: credentials.password } : {};
    const headers: Record<string, string> =
      method === "ext-jwt" ? { authorization: `Bearer ${await credentials.token()}` } : {};
    const { data } = (await this.#send(
      "authenticate",
      { query: { method }, body },
      { headers, signal },
      true,
    )) as Awaited<ReturnType<ApiSession["authenticate"]>>;
    const own = { "zt-session": data.token };
    const session: HeldSession = {
      headers: () => own,
      end: async (signal) =>
        await this.#endpoints[this.#endpoint]?.client.deleteCurrentAPISession({}, { headers: own, signal }),
      stop: () => {},
    };
    return { session, identity: data.identity.name, isOpen: data.authQueries.length > 0 };
  }

  /** At the endpoint that announced it: the steps of one login belong together. */
  async #oidc({ path }: AnnouncedOidc, signal: AbortSignal): Promise<SessionAnswer> {
    const { credentials, endpoints, name, log } = this.#o;
    await this.#turn(signal);
    this.#o.mayAct?.();
    try {
      return await oidcSession({
        place: () => ({ ...this.#place(endpoints[this.#endpoint] ?? endpoints[0]), path }),
        credentials,
        signal,
        counted: (work) => this.#counted("oidc", work),
        onRefused: (session) => {
          log.info({ network: name }, "the network has ended the session; the next request begins another one");
          this.#drop(session);
        },
        onFailed: (err) => log.debug({ network: name, err }, "the tokens could not be renewed; it is tried again"),
      });
    } catch (error) {
      if (error instanceof ApiError && error.status === 429) this.#limit(error);
      if (error instanceof ApiTransportError) this.#isFailing = true;
      throw error;
    }
  }

  #refusedError(reason: string, retryAfter: number | undefined, cause?: unknown): NetworkNotReadyError {
    const next =
      retryAfter === undefined
        ? "it is not tried again before the credentials change, so that the identity is not locked"
        : this.#o.credentials.method === "password"
          ? "it is tried once more"
          : "it is tried again";
    const message = `the network ${this.#o.name} refused the operator's login by ${this.#o.credentials.method} (${reason}); ${next}`;
    const isStalled = this.#gate.isStuck;
    return new NetworkNotReadyError("NetworkUnauthorized", message, { retryAfterMs: retryAfter, isStalled, cause });
  }

  /** Asks the endpoints in order, from the one that answered last; the next one only when the server can't have acted, or twice does no harm. */
  async #send(
    id: string,
    input: object,
    options: CallOptions & { signal: AbortSignal },
    isLogin = false,
  ): Promise<unknown> {
    let failure: unknown;
    for (let left = this.#endpoints.length - 1; left >= 0; left--) {
      const endpoint = this.#endpoint;
      await this.#turn(options.signal);
      if (MANAGEMENT[id]?.method !== "GET") this.#o.mayAct?.();
      try {
        const answer = await this.#counted(id, async () =>
          this.#endpoints[endpoint]?.call(id, input, options, left > 0),
        );
        this.#limited = 0;
        if (!isLogin) this.#recovered();
        return answer;
      } catch (error) {
        options.signal.throwIfAborted();
        if (error instanceof ApiError) {
          if (error.status === 429) this.#limit(error);
          throw error;
        }
        if (!(error instanceof ApiTransportError)) throw error;
        this.#isFailing = true;
        failure = error;
        if (this.#endpoint === endpoint) this.#endpoint = (endpoint + 1) % this.#endpoints.length;
        if (!mayMove(id, error)) break;
      }
    }
    throw failure;
  }

  async #counted<T>(id: string, work: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    const done = (status: number): void => this.#o.onRequest?.(id, status, (performance.now() - startedAt) / 1000);
    try {
      const answer = await work();
      done(200);
      return answer;
    } catch (error) {
      done(error instanceof ApiError ? error.status : 0);
      throw error;
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const { pausedMs } = this.#pace;
    if (pausedMs > this.#times.maxWaitMs) throw this.#pausedError(pausedMs);
    await this.#pace.turn(signal);
  }

  /** A 429 holds for everything that goes to the controller, not for the one who got it. */
  #limit(error: ApiError): void {
    this.#limited += 1;
    const guess = backoffDelay(this.#limited, { firstMs: this.#times.limitedMs, maxMs: MAX_LIMITED_MS });
    // Several operators that were told the same don't come back at the same moment.
    const pauseMs = jittered(retryAfterMs(error) ?? guess, [1, 1.25]);
    this.#pace.pause(pauseMs);
    this.#o.log.warn({ network: this.#o.name, pauseMs }, "the controller asks for fewer requests");
  }

  #limitedError(error: ApiError): NetworkNotReadyError {
    return this.#pausedError(this.#pace.pausedMs, error);
  }

  #pausedError(pausedMs: number, cause?: unknown): NetworkNotReadyError {
    const message = `the controller of ${this.#o.name} asked for fewer requests: it is left alone for ${Math.ceil(pausedMs / 1000)} s`;
    return new NetworkNotReadyError("RateLimited", message, { retryAfterMs: pausedMs, cause });
  }

  #recovered(): void {
    if (!this.#isFailing) return;
    this.#isFailing = false;
    if (this.#recoveryTimer !== undefined || this.#closing.signal.aborted) return;
    const waitMs = this.#toldAt + this.#times.recoveredMs - performance.now();
    this.#recoveryTimer = setTimeout(() => this.#reportRecovery(), Math.max(0, waitMs));
  }

  #reportRecovery(): void {
    this.#recoveryTimer = undefined;
    this.#toldAt = performance.now();
    this.#o.log.info({ network: this.#o.name }, "the network answers again");
    this.#o.onRecovered?.();
  }

  #signal(given: AbortSignal | undefined): AbortSignal {
    return given === undefined ? this.#closing.signal : AbortSignal.any([given, this.#closing.signal]);
  }
}
