import { ApiError, listAll } from "@sallyport/api/client";
import { errorText, Listeners } from "@sallyport/async";
import type { Logger, Permission } from "@sallyport/wire";
import type { ApiSession } from "./api-session.ts";
import { RouterError, ServiceError } from "./errors.ts";
import { NO_ROUTERS, type RouterAddress, routerAddresses } from "./router-address.ts";

/** A service that this identity may use. */
export interface Service {
  readonly id: string;
  readonly name: string;
  readonly encryptionRequired: boolean;
  /** `Dial`, `Bind` or both. */
  readonly permissions: readonly string[];
  /** Configurations by the name of their type. */
  readonly config: Readonly<Record<string, unknown>>;
}

/** A permission in use: the token that routers accept, and the routers. */
export interface ServiceSession {
  readonly id: string;
  readonly token: string;
  readonly routers: readonly RouterAddress[];
}

/**
 * What this identity may dial and host, and its sessions for that.
 *
 * @internal
 */
export class ServiceDirectory {
  readonly #session: ApiSession;
  readonly #log: Logger;
  #known = new Map<string, Service>();
  #isLoaded = false;
  #lastChangeAt: string | undefined;
  readonly #dialSessions = new Map<string, Promise<ServiceSession>>();
  /** By the id of a service, for dials that need no session. */
  readonly #routers = new Map<string, readonly RouterAddress[]>();
  readonly #followers = new Listeners<[services: readonly Service[]]>();

  constructor(o: { session: ApiSession; log: Logger }) {
    this.#session = o.session;
    this.#log = o.log;
  }

  /** All of them, by name; loaded at the first call, kept up to date by `poll`. */
  async list(): Promise<Service[]> {
    if (!this.#isLoaded) await this.#load();
    return [...this.#known.values()];
  }

  /** Calls `follower` with all of them: now, if they are known, and whenever they were loaded. @returns ends that */
  follow(follower: (services: readonly Service[]) => void): () => void {
    const remove = this.#followers.add(follower);
    if (this.#isLoaded) follower([...this.#known.values()]);
    else void this.poll();
    return remove;
  }

  /**
   * The service of this name; the controller is asked when it is not known yet.
   *
   * @throws ServiceError `SERVICE_NOT_AVAILABLE`
   */
  async find(name: string, permission: Permission): Promise<Service> {
    const usable = (service: Service | undefined) => service?.permissions.includes(permission) === true;
    let service = this.#known.get(name);
    if (!usable(service)) {
      const filter = `name="${name.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
      const { data } = await this.#session.call((api) => api.listServices({ query: { filter } }));
      service = data.find((candidate) => candidate.name === name);
      if (service !== undefined) this.#known.set(name, service);
    }
    if (service !== undefined && usable(service)) return service;
    const verb = permission === "Dial" ? "dial" : "host";
    throw new ServiceError(
      "SERVICE_NOT_AVAILABLE",
      service === undefined
        ? `there is no service ${name} for this identity; check its name, and the service policies that should give it`
        : `this identity may not ${verb} ${name}; a ${permission} service policy must give it the permission`,
    );
  }

  /** The session for dialling a service; one for all connections. */
  dialSession(service: Service): Promise<ServiceSession> {
    return this.#dialSessions.get(service.id) ?? this.#keep(service, this.createSession(service, "Dial"));
  }

  /** The session after `used` led to no connection: with its current routers, or a new one when it is void. Dials that fail together share it. */
  async renewDialSession(service: Service, used: ServiceSession, isVoid = false): Promise<ServiceSession> {
    const held = this.#dialSessions.get(service.id);
    const current = await held?.catch(() => undefined);
    if (current !== used || this.#dialSessions.get(service.id) !== held) return await this.dialSession(service);
    const renew = async () => (isVoid ? undefined : await this.refreshSession(used));
    return await this.#keep(
      service,
      renew().then((known) => known ?? this.createSession(service, "Dial")),
    );
  }

  /** The routers by which the service is dialled without a session; empty while they are asked for, undefined before. */
  routersOf(service: Service): readonly RouterAddress[] | undefined {
    return this.#routers.get(service.id);
  }

  /** Asks the controller for them. Dials meanwhile find that they are asked for. @throws as `call` */
  async learnRouters({ id }: Service): Promise<void> {
    const none: readonly RouterAddress[] = [];
    this.#routers.set(id, none);
    let online: readonly RouterAddress[] | undefined;
    try {
      const { data } = await this.#session.call((api) => api.listServiceEdgeRouters({ params: { id } }));
      online = routerAddresses(data.edgeRouters.filter(({ isOnline }) => isOnline));
    } finally {
      // They may have been forgotten meanwhile.
      if (this.#routers.get(id) === none) {
        if (online === undefined) this.#routers.delete(id);
        else this.#routers.set(id, online);
      }
    }
  }

  /** Learns where the routers of dial sessions are now. Those that are away stay: they may return. @throws as `call` */
  async refreshDialSessions(): Promise<void> {
    // Asked for again by the next dials.
    this.#routers.clear();
    await Promise.all(
      [...this.#dialSessions].map(async ([id, held]) => {
        const used = await held.catch(() => undefined);
        const known = used === undefined ? undefined : await this.refreshSession(used);
        if (used === undefined || known === undefined || this.#dialSessions.get(id) !== held) return;
        const away = used.routers.filter(({ name }) => !known.routers.some((router) => router.name === name));
        this.#dialSessions.set(id, Promise.resolve({ ...known, routers: [...known.routers, ...away] }));
      }),
    );
  }

  /** A new session. @throws ServiceError `SERVICE_NOT_AVAILABLE` when the permission is gone, RouterError `NO_ROUTERS` where no router may be used */
  async createSession(service: Service, type: Permission): Promise<ServiceSession> {
    try {
      const { data } = await this.#session.call((api) => api.createSession({ body: { serviceId: service.id, type } }));
      return { id: data.id, token: data.token, routers: routerAddresses(data.edgeRouters) };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code === "NO_EDGE_ROUTERS_AVAILABLE") throw await this.noRouters(service, type, error);
      if (error.status !== 404) throw error;
      this.#known.delete(service.name);
      throw new ServiceError(
        "SERVICE_NOT_AVAILABLE",
        `the controller no longer lets this identity use ${service.name}; check the service policies`,
        { cause: error },
      );
    }
  }

  /** The session with the routers that the controller sees for it now; undefined when it is gone. */
  async refreshSession(session: ServiceSession): Promise<ServiceSession | undefined> {
    try {
      const { data } = await this.#session.call((api) => api.detailSession({ params: { id: session.id } }));
      // OpenZiti 2.x gives the token that routers take to who makes the session only; here it names the session by its id.
      return { ...session, routers: routerAddresses(data.edgeRouters) };
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** That no router may be used, with the policy or router that the controller says is missing. OpenZiti's controllers cannot say it (`docs/why.md`). */
  async noRouters(service: Service, permission: Permission, cause?: unknown): Promise<RouterError> {
    const text = (await this.#obstacle(service, permission)) ?? NO_ROUTERS;
    return new RouterError("NO_ROUTERS", `no edge router for ${service.name}: ${text}`, { cause });
  }

  async #obstacle({ id }: Service, permission: Permission): Promise<string | undefined> {
    const type = permission === "Dial" ? "dial" : "bind";
    try {
      const { data } = await this.#session.call((api) => api.explainOwnAccess({ params: { id }, query: { type } }));
      return data.allowed ? undefined : data.firstProblem?.message;
    } catch (error) {
      this.#log.debug({ reason: errorText(error) }, "the controller does not say why a service has no edge router");
      return undefined;
    }
  }

  #keep(service: Service, session: Promise<ServiceSession>): Promise<ServiceSession> {
    this.#dialSessions.set(service.id, session);
    session.catch(() => {
      if (this.#dialSessions.get(service.id) === session) this.#dialSessions.delete(service.id);
    });
    return session;
  }

  /** Forgets everything that depends on the API session. */
  reset(): void {
    this.#dialSessions.clear();
    this.#routers.clear();
    this.#known.clear();
    this.#isLoaded = false;
    this.#lastChangeAt = undefined;
    if (this.#followers.size > 0) void this.poll();
  }

  /** Looks whether services changed, and loads them when they did. */
  async poll(): Promise<void> {
    try {
      const { data } = await this.#session.call((api) => api.listServiceUpdates());
      if (data.lastChangeAt === this.#lastChangeAt) return;
      await this.#load();
      this.#lastChangeAt = data.lastChangeAt;
    } catch (error) {
      this.#log.warn({ reason: errorText(error) }, "the services of this identity could not be refreshed");
    }
  }

  async #load(): Promise<void> {
    const services: readonly Service[] = await listAll((query) =>
      this.#session.call((api) => api.listServices({ query })),
    );
    this.#known = new Map(services.map((service) => [service.name, service]));
    this.#isLoaded = true;
    const ids = new Set(services.map((service) => service.id));
    for (const held of [this.#dialSessions, this.#routers]) {
      for (const id of held.keys()) if (!ids.has(id)) held.delete(id);
    }
    this.#followers.emit(services);
  }
}
