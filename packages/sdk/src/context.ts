import type { AgentOptions } from "node:http";
import { type Logger, silentLogger } from "@sallyport/wire";
import { ApiSession, type Credentials, fromController } from "./api-session.ts";
import type { EdgeConnection } from "./connection.ts";
import { loadSodium } from "./crypto/sodium.ts";
import { dialThrough, RouterDialError } from "./dial.ts";
import { ConnectionClosedError, DialError } from "./errors.ts";
import { ServiceAgent } from "./http-agent.ts";
import { type IdentityFile, loadIdentityFile } from "./identity-file.ts";
import { orAborted, Routers } from "./routers.ts";
import { type ListenOptions, ServiceListener } from "./service-listener.ts";
import { type Service, type ServiceSession, Services } from "./services.ts";

/** Settings of a context; everything is optional. */
export interface ContextOptions {
  /** Silent when left out. A pino logger fits. */
  readonly log?: Logger;
  /** Names of the config types to get with services; those of the identity file when left out. */
  readonly configTypes?: readonly string[];
  /** How often the controller is asked whether services changed, in milliseconds; 60,000 when left out. */
  readonly refreshIntervalMs?: number;
}

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

const defaultDialTimeoutMs = 15_000;
const defaultRefreshIntervalMs = 60_000;
/** A router that goes away while dialling, or a session that was ended, is worth another try; a refusal is not. */
const maxAttempts = 3;

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
  readonly #services: Services;
  readonly #routers: Routers;
  readonly #log: Logger;
  readonly #listeners = new Set<ServiceListener>();
  readonly #poll: NodeJS.Timeout;

  private constructor(
    controllerUrl: string,
    credentials: Credentials,
    configTypes: readonly string[],
    o: ContextOptions,
  ) {
    this.#log = o.log ?? silentLogger;
    const log = this.#log;
    this.#session = new ApiSession({
      controllerUrl,
      credentials,
      configTypes: o.configTypes ?? configTypes,
      log,
      onReplaced: () => this.#startOver(),
    });
    const session = this.#session;
    this.#services = new Services({ session, log, onChange: () => {} });
    this.#routers = new Routers({ login: () => session.login(), log, onRefused: () => this.#verify() });
    this.#poll = setInterval(() => void this.#services.poll(), o.refreshIntervalMs ?? defaultRefreshIntervalMs);
    this.#poll.unref();
  }

  /**
   * Reads an identity and logs in.
   *
   * @param source path of an identity file, or its content (what `enroll` gives)
   * @throws IdentityFileError, AuthenticationError
   */
  static async load(source: string | IdentityFile, options: ContextOptions = {}): Promise<Context> {
    const { controllerUrl, configTypes, identity } = await loadIdentityFile(source);
    return await Context.#loggedIn(new Context(controllerUrl, { kind: "certificate", identity }, configTypes, options));
  }

  /**
   * Logs in by name and password; router connections use a certificate made for the API session.
   *
   * @param login.controller `https://host:port`
   * @param login.ca PEM bundle that the controller and the routers are checked against
   * @throws AuthenticationError
   */
  static async login(
    login: { readonly controller: string; readonly ca: string; readonly username: string; readonly password: string },
    options: ContextOptions = {},
  ): Promise<Context> {
    const { controller, ca, username, password } = login;
    const credentials: Credentials = { kind: "password", username, password, caPem: ca };
    return await Context.#loggedIn(new Context(new URL(controller).origin, credentials, [], options));
  }

  static async #loggedIn(context: Context): Promise<Context> {
    try {
      await context.#session.login();
      return context;
    } catch (error) {
      await context.close();
      throw error;
    }
  }

  /** The services that this identity may dial or host. */
  async services(): Promise<Service[]> {
    try {
      return await this.#services.list();
    } catch (error) {
      throw fromController(error);
    }
  }

  /**
   * Connects to a service.
   *
   * @throws ServiceError, RouterError, DialError (`DIAL_REFUSED` with the network's words, `DIAL_TIMEOUT`),
   *   AuthenticationError, ControllerError, or the signal's reason
   */
  async dial(service: string, options: DialOptions = {}): Promise<EdgeConnection> {
    const timeoutMs = options.timeoutMs ?? defaultDialTimeoutMs;
    const timeout = AbortSignal.timeout(timeoutMs);
    const signal = options.signal === undefined ? timeout : AbortSignal.any([timeout, options.signal]);
    try {
      return await this.#dial(service, options, signal);
    } catch (error) {
      if (!timeout.aborted || error !== timeout.reason) throw fromController(error);
      throw new DialError(
        "DIAL_TIMEOUT",
        `${service} could not be dialled within ${timeoutMs} ms; is it hosted, and are controller and routers reachable?`,
        { cause: error },
      );
    }
  }

  /**
   * Hosts a service; resolves when it can be dialled through a first router.
   *
   * @throws ServiceError, AuthenticationError, ControllerError, or the signal's reason
   */
  async listen(service: string, options: ListenOptions = {}): Promise<ServiceListener> {
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
   * An agent for `node:http` whose host names are service names. URLs are lower-cased by their parser, so a service is
   * found whatever its capitals.
   *
   * @param options as for `http.Agent`; connections are kept alive unless it says otherwise
   */
  httpAgent(options: AgentOptions = {}): ServiceAgent {
    return new ServiceAgent(
      async (host) => this.dial(await this.#serviceOfHost(host), { allowHalfOpen: true }),
      options,
    );
  }

  /** Takes back hosted services, closes all connections and logs out. */
  async close(): Promise<void> {
    clearInterval(this.#poll);
    for (const listener of this.#listeners) await listener.close();
    this.#routers.close();
    await this.#session.close();
  }

  async #serviceOfHost(host: string): Promise<string> {
    const services = await this.#services.list();
    const exact = services.find((service) => service.name === host);
    return (exact ?? services.find((service) => service.name.toLowerCase() === host.toLowerCase()))?.name ?? host;
  }

  async #dial(name: string, options: DialOptions, signal: AbortSignal): Promise<EdgeConnection> {
    signal.throwIfAborted();
    const service = await orAborted(this.#services.find(name, "Dial"), signal);
    const login = await orAborted(this.#session.login(), signal);
    const sodium = service.encryptionRequired ? await loadSodium() : undefined;
    for (let attempt = 1; ; attempt++) {
      const session = await orAborted(this.#sessionWithRouters(service), signal);
      const edge = await this.#routers.best(session.routers, signal);
      try {
        return await dialThrough(
          edge,
          {
            service: name,
            sessionToken: session.token,
            callerId: login.identityName,
            sodium,
            instance: options.instance,
            appData: options.appData,
            allowHalfOpen: options.allowHalfOpen ?? false,
          },
          signal,
        );
      } catch (error) {
        if (!(error instanceof RouterDialError) || attempt === maxAttempts) throw error;
        if (!(await this.#isWorthRetrying(error, service, session))) throw error;
      }
    }
  }

  async #sessionWithRouters(service: Service): Promise<ServiceSession> {
    const session = await this.#services.dialSession(service);
    if (session.routers.length > 0) return session;
    this.#services.dropDialSession(service);
    return await this.#services.dialSession(service);
  }

  /** After a refusal: was it about our session, which can be replaced, or about the service? */
  async #isWorthRetrying(error: RouterDialError, service: Service, session: ServiceSession): Promise<boolean> {
    if (error.failure === "lost") return true;
    if (error.failure === "unencrypted") return false;
    if (!/invalid session/i.test(error.text) && (await this.#services.refreshSession(session)) !== undefined)
      return false;
    this.#services.dropDialSession(service);
    return true;
  }

  #verify(): void {
    this.#session
      .verify()
      .catch((error: unknown) => this.#log.warn({ err: error }, "the API session could not be verified"));
  }

  #startOver(): void {
    this.#services.reset();
    this.#routers.closeAll(new ConnectionClosedError("the controller ended the API session; dial again"));
    for (const listener of this.#listeners) listener.reset();
  }
}
