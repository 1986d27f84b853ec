import type { AgentOptions } from "node:http";
import { abortable, errorText, jittered } from "@sallyport/async";
import { type Logger, silentLogger } from "@sallyport/wire";
import { ApiSession, fromController, type IdentityInfo } from "./api-session.ts";
import { EdgeConnection } from "./circuit/connection.ts";
import type { MessageConnection } from "./circuit/message-connection.ts";
import { AuthenticationError, ConnectionClosedError, DialError, SdkError } from "./errors.ts";
import { type Hosted, type HostOptions, RetriedHosting } from "./hosting/hosted.ts";
import { type ListenOptions, ServiceListener } from "./hosting/service-listener.ts";
import { ServiceAgent } from "./http-agent.ts";
import { type IdentityFile, type LoadedIdentity, loadIdentityFile } from "./identity-file.ts";
import type { SessionStore } from "./login/kept-session.ts";
import type { LoginCredentials } from "./login/login.ts";
import { type ExternalTokenQuery, type OneTimeCodeQuery, SecondFactors } from "./login/second-factors.ts";
import { RouterPool } from "./router-pool.ts";
import { ControllerOutage, ServiceDialer } from "./service-dialer.ts";
import { type Service, ServiceDirectory } from "./service-directory.ts";

/** Settings of a context; everything is optional. */
export interface ContextOptions {
  /** Silent when left out. A pino logger fits. */
  readonly log?: Logger;
  /** Names of the config types to get with services; those of the identity file when left out. */
  readonly configTypes?: readonly string[];
  /** How often the controller is asked whether services changed, in milliseconds, give or take a tenth; 60,000 when left out. */
  readonly refreshIntervalMs?: number;
  /**
   * TCP connections to each router, if it supports several; 1 when left out. More help where one cannot fill the line:
   * over long or lossy ways.
   */
  readonly connectionsPerRouter?: number;
  /** Ends waiting for the login; afterwards it has no meaning. */
  readonly signal?: AbortSignal;
  /** Gives a code of an authenticator app when the network asks for one, at each login. */
  readonly oneTimeCode?: (query: OneTimeCodeQuery) => Promise<string>;
  /** Gives a token of another provider when the network asks for one besides the first proof, at each login. */
  readonly externalToken?: (query: ExternalTokenQuery) => Promise<string>;
}

/** Who logs in without an identity file. */
export type ContextLogin = {
  /** `https://host:port` */
  readonly controller: string;
  /** PEM bundle that the controller and the routers are checked against. */
  readonly ca: string;
} & (
  | { readonly username: string; readonly password: string }
  | {
      /** A token of another provider that the network trusts; asked for at each login. */
      readonly token: () => Promise<string>;
      /**
       * Where the session is kept: the next run of the program goes on with it and needs no token, until it has ended. `close` does not log out
       * then. Only logins by OpenID Connect are kept.
       */
      readonly store?: SessionStore | undefined;
    }
);

/** How a service is dialled; everything is optional. */
export interface DialOptions {
  readonly signal?: AbortSignal;
  /** For everything until the connection exists; 15,000 ms when left out. */
  readonly timeoutMs?: number;
  /** Dial the host with this instance id. */
  readonly instance?: string;
  /** Bytes that the host gets along with the connection. */
  readonly appData?: Uint8Array;
  /** As with `net.connect`: false (when left out) ends the connection when the host has ended. */
  readonly allowHalfOpen?: boolean;
}

/** How a service is dialled with callbacks instead of a stream. */
export interface ConnectOptions extends Omit<DialOptions, "allowHalfOpen"> {
  /** Messages are datagrams: never cut and never joined. */
  readonly datagrams?: boolean;
}

const DEFAULT_DIAL_TIMEOUT_MS = 15_000;
const DEFAULT_REFRESH_INTERVAL_MS = 60_000;

/**
 * An identity's way into a network: dials and hosts services. One context per process is enough; it shares its router
 * connections among everything on it.
 *
 * ```ts
 * const context = await Context.load("me.json");
 * const socket = await context.dial("my-service");
 * const server = await context.listen("my-other-service");
 * server.on("connection", (socket) => socket.pipe(socket));
 * ```
 */
export class Context {
  readonly #session: ApiSession;
  readonly #services: ServiceDirectory;
  readonly #routers: RouterPool;
  readonly #dialer: ServiceDialer;
  readonly #log: Logger;
  readonly #listeners = new Set<ServiceListener>();
  /** Addresses of the routers that were online when one was missing. */
  #located: ReadonlySet<string> = new Set();
  readonly #poll: NodeJS.Timeout;
  #isClosed = false;

  private constructor(
    controllerUrls: readonly string[],
    credentials: LoginCredentials,
    configTypes: readonly string[],
    o: ContextOptions,
    newest?: () => Promise<LoadedIdentity>,
  ) {
    this.#log = o.log ?? silentLogger;
    const log = this.#log;
    this.#session = new ApiSession({
      controllerUrls,
      credentials,
      configTypes: o.configTypes ?? configTypes,
      factors: new SecondFactors(o),
      log,
      onToken: (token) => this.#routers.updateToken(token),
      onReplaced: () => this.#startOver(),
      newest,
    });
    const session = this.#session;
    this.#services = new ServiceDirectory({ session, log });
    this.#routers = new RouterPool({
      login: () => session.login(),
      log,
      onRefused: () => this.#verify(),
      onMissing: () => void this.#locateRouters(),
      connections: o.connectionsPerRouter,
    });
    this.#dialer = new ServiceDialer({ session, services: this.#services, routers: this.#routers, log });
    // Contexts that were started together do not ask together.
    const interval = jittered(o.refreshIntervalMs ?? DEFAULT_REFRESH_INTERVAL_MS, [0.9, 1.1]);
    this.#poll = setInterval(() => void session.renew().then(() => this.#services.poll()), interval);
    this.#poll.unref();
  }

  /**
   * Reads an identity and logs in. A file is read again every `refreshIntervalMs` and before each further login: one that was
   * renewed in its place is taken without an interruption.
   *
   * @param source path of an identity file, or its content (what `enroll` gives)
   * @throws IdentityFileError, AuthenticationError, or the signal's reason
   */
  static async load(source: string | IdentityFile, options: ContextOptions = {}): Promise<Context> {
    const { controllerUrls, configTypes, identity } = await loadIdentityFile(source);
    const credentials: LoginCredentials = { kind: "certificate", identity };
    const newest = typeof source === "string" ? () => loadIdentityFile(source) : undefined;
    const context = new Context(controllerUrls, credentials, configTypes, options, newest);
    return await Context.#loggedIn(context, options.signal);
  }

  /**
   * Logs in by name and password, or by a token of another provider; router connections use a certificate made for the API session.
   *
   * @throws AuthenticationError, or the signal's reason
   */
  static async login(login: ContextLogin, options: ContextOptions = {}): Promise<Context> {
    const { controller, ca: caPem } = login;
    const credentials: LoginCredentials =
      "token" in login
        ? { kind: "external", token: login.token, store: login.store, caPem }
        : { kind: "password", username: login.username, password: login.password, caPem };
    const url = URL.canParse(controller) ? new URL(controller) : undefined;
    if (url?.protocol !== "https:") {
      const text = `expected https://host:port, got ${JSON.stringify(controller)}`;
      throw new AuthenticationError("CONTROLLER_ADDRESS_INVALID", text);
    }
    return await Context.#loggedIn(new Context([url.origin], credentials, [], options), options.signal);
  }

  static async #loggedIn(context: Context, signal: AbortSignal | undefined): Promise<Context> {
    try {
      await abortable(context.#session.login(), signal);
      return context;
    } catch (error) {
      await context.close();
      throw error;
    }
  }

  /**
   * The services that this identity may dial or host, as they were when the controller was asked last (see
   * `refreshIntervalMs`).
   *
   * @throws AuthenticationError, ControllerError, or the signal's reason
   */
  async services(options: { readonly signal?: AbortSignal } = {}): Promise<Service[]> {
    return await this.#ask(() => this.#services.list(), options.signal);
  }

  /**
   * Follows the services that this identity may dial or host: `listener` is called with all of them when they are known,
   * and again after each change that the controller tells of (see `refreshIntervalMs`). What keeps them from being
   * loaded is logged, and tried again.
   *
   * @returns ends following
   */
  onServices(listener: (services: readonly Service[]) => void): () => void {
    this.#mustBeOpen();
    return this.#services.follow(listener);
  }

  /**
   * What the controller knows of this identity.
   *
   * @throws AuthenticationError, ControllerError, or the signal's reason
   */
  async identity(options: { readonly signal?: AbortSignal } = {}): Promise<IdentityInfo> {
    return await this.#ask(() => this.#session.identity(), options.signal);
  }

  /**
   * Host names and IP addresses of the controller and of the routers that this identity may use: what must stay
   * reachable for the network to be reachable.
   *
   * @throws AuthenticationError, ControllerError
   */
  async hosts(): Promise<string[]> {
    return await this.#ask(() => this.#session.hosts());
  }

  /**
   * Connects to a service.
   *
   * @throws ServiceError, RouterError, DialError (`DIAL_REFUSED` with the network's words, `DIAL_TIMEOUT`),
   *   AuthenticationError, ControllerError, or the signal's reason
   */
  async dial(service: string, options: DialOptions = {}): Promise<EdgeConnection> {
    return new EdgeConnection(await this.connect(service, options), { allowHalfOpen: options.allowHalfOpen ?? false });
  }

  /**
   * As {@link dial}, with callbacks instead of a stream: for who relays and wants no copies in between
   * (docs/sdk.md "Connections as callbacks").
   */
  async connect(service: string, options: ConnectOptions = {}): Promise<MessageConnection> {
    this.#mustBeOpen();
    const timeoutMs = options.timeoutMs ?? DEFAULT_DIAL_TIMEOUT_MS;
    const timeout = AbortSignal.timeout(timeoutMs);
    const signal = options.signal === undefined ? timeout : AbortSignal.any([timeout, options.signal]);
    const outage = new ControllerOutage(signal);
    try {
      const { instance, appData, datagrams } = options;
      return await this.#dialer.dial(service, { instance, appData, datagrams, signal, given: options.signal, outage });
    } catch (error) {
      if (!timeout.aborted || error !== timeout.reason) throw fromController(error);
      const why =
        outage.reason === undefined
          ? "is it hosted, and are controller and routers reachable?"
          : `the controller is away: ${outage.reason}`;
      const text = `${service} could not be dialled within ${timeoutMs} ms; ${why}`;
      throw new DialError("DIAL_TIMEOUT", text, { cause: error });
    }
  }

  /**
   * Hosts a service; resolves when it can be dialled through a first router, however long that takes: use a signal to
   * limit it.
   *
   * @throws ServiceError, ListenError (`OPTION_INVALID`, `LISTENER_CLOSED`), AuthenticationError, ControllerError, or the signal's reason
   */
  async listen(service: string, options: ListenOptions = {}): Promise<ServiceListener> {
    this.#mustBeOpen();
    const parts = { session: this.#session, services: this.#services, routers: this.#routers, log: this.#log };
    const listener = new ServiceListener(service, parts, options);
    this.#listeners.add(listener);
    listener.once("close", () => this.#listeners.delete(listener));
    try {
      await listener.start();
      return listener;
    } catch (error) {
      await listener.close();
      throw fromController(error);
    }
  }

  /**
   * Hosts a service and answers every dial itself, with callbacks instead of streams. Resolves at once: the service is
   * offered as soon as it can be, again whenever it was lost, and until it is closed.
   *
   * @throws ListenError `OPTION_INVALID`
   */
  host(service: string, options: HostOptions): Hosted {
    this.#mustBeOpen();
    return new RetriedHosting((signal) => this.listen(service, { ...options, signal }), service, this.#log);
  }

  /**
   * An agent for `node:http` whose host names are service names. URLs are lower-cased by their parser, so a service is
   * found whatever its capitals.
   *
   * @param options as for `http.Agent`; connections are kept alive unless it says otherwise
   */
  httpAgent(options: AgentOptions = {}): ServiceAgent {
    return new ServiceAgent(async (host, signal) => this.dial(await this.#serviceOfHost(host), { signal }), options);
  }

  /** Takes back hosted services, closes all connections and logs out; nothing is left that keeps the process alive. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#poll);
    for (const listener of this.#listeners) await listener.close();
    await this.#routers.close();
    await this.#session.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #mustBeOpen(): void {
    if (this.#isClosed) throw new SdkError("CONTEXT_CLOSED", "this context was closed; load a new one");
  }

  async #ask<T>(question: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    this.#mustBeOpen();
    signal?.throwIfAborted();
    try {
      return await abortable(question(), signal);
    } catch (error) {
      throw fromController(error);
    }
  }

  async #serviceOfHost(host: string): Promise<string> {
    const services = await this.#services.list();
    const exact = services.find((service) => service.name === host);
    return (exact ?? services.find((service) => service.name.toLowerCase() === host.toLowerCase()))?.name ?? host;
  }

  #verify(): void {
    this.#session
      .verify()
      .catch((error: unknown) => this.#log.warn({ err: error }, "the API session could not be verified"));
  }

  /** After a router did not come back where it was: dials and hosted services go where it is now, as soon as it is anywhere. */
  async #locateRouters(): Promise<void> {
    try {
      const online = await this.#session.routers();
      this.#routers.located(online);
      const known = this.#located;
      this.#located = new Set(online.map(({ address }) => address));
      if (online.every(({ address }) => known.has(address))) return;
      await this.#services.refreshDialSessions();
      for (const listener of this.#listeners) listener.lookAgain();
    } catch (error) {
      this.#log.debug({ reason: errorText(error) }, "the controller does not say where the routers are");
    }
  }

  #startOver(): void {
    this.#services.reset();
    this.#routers.closeAll(new ConnectionClosedError("the controller ended the API session; dial again"));
    for (const listener of this.#listeners) listener.reset();
  }
}
