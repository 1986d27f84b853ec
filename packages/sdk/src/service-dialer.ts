import { ApiError, ApiTransportError } from "@sallyport/api/client";
import { abortable, Backoff, errorText, jittered, pause } from "@sallyport/async";
import { EdgeErrorCode, type Logger } from "@sallyport/wire";
import type { ApiSession } from "./api-session.ts";
import type { MessageConnection } from "./circuit/message-connection.ts";
import { loadSodium } from "./crypto/load-sodium.ts";
import { type ConnectRequest, dialThrough, RouterDialError } from "./dial.ts";
import type { EdgeChannel } from "./edge-channel.ts";
import { RouterError } from "./errors.ts";
import type { RouterAddress } from "./router-address.ts";
import type { RouterPool } from "./router-pool.ts";
import type { Service, ServiceDirectory, ServiceSession } from "./service-directory.ts";

export interface ServiceDialerParts {
  readonly session: Pick<ApiSession, "login">;
  readonly services: Pick<
    ServiceDirectory,
    "find" | "dialSession" | "renewDialSession" | "routersOf" | "learnRouters" | "noRouters"
  >;
  readonly routers: Pick<RouterPool, "best" | "connectingByService" | "isInMotion" | "leaves">;
  readonly log: Logger;
}

export interface ServiceDial extends Pick<ConnectRequest, "instance" | "appData" | "datagrams"> {
  /** For everything until the connection exists. */
  readonly signal: AbortSignal;
  /** The caller's own part of it. */
  readonly given: AbortSignal | undefined;
  readonly outage: ControllerOutage;
}

/** Routers that go away while dialling are worth so many tries. */
const MAX_LOST = 3;
/** While routers come and go a dial that failed is tried again for so long, as its own time allows. */
const PATIENCE_MS = 5_000;
const pauses = { firstMs: 100, maxMs: 1_000 };

/** Dials services: finds session and router, and tries again what failed for a reason that passes. */
export class ServiceDialer {
  readonly #parts: ServiceDialerParts;

  constructor(parts: ServiceDialerParts) {
    this.#parts = parts;
  }

  /** @throws ServiceError, RouterError, DialError, AuthenticationError, ControllerError, or the signal's reason */
  async dial(name: string, o: ServiceDial): Promise<MessageConnection> {
    const { session: login, services } = this.#parts;
    const { signal, outage } = o;
    signal.throwIfAborted();
    const service = await outage.outlast(() => services.find(name, "Dial"));
    const { kind, identityName } = await outage.outlast(() => login.login());
    const sodium = service.encryptionRequired ? await loadSodium() : undefined;
    const { instance, appData, datagrams } = o;
    const request = { service: name, callerId: identityName, sodium, instance, appData, datagrams };
    const passing = new PassingFailures(this.#parts, name, o);
    // Where it fails as such, the controller decides, by a session.
    let isByService = kind === "oidc";
    let lost = 0;
    let isRenewed = false;
    for (;;) {
      const way =
        (isByService && this.#wayByService(service)) || (await outage.outlast(() => this.#wayBySession(service)));
      const { session } = way;
      let edge: EdgeChannel | undefined;
      try {
        edge = await this.#parts.routers.best(way.routers, signal, passing.refusedBy);
        if (session === undefined && !edge.connectsByService) {
          isByService = false;
          continue;
        }
        const by = session === undefined ? { serviceId: service.id } : { sessionToken: session.token };
        const connection = await dialThrough(edge, { ...request, by }, signal);
        if (session === undefined && services.routersOf(service) === undefined) this.#learnRouters(service);
        return connection;
      } catch (error) {
        const failure = error instanceof RouterDialError ? error.failure : undefined;
        if (failure === "leaving" && edge !== undefined) this.#parts.routers.leaves(edge);
        const isLost = failure === "leaving" || failure === "lost";
        if (isLost && ++lost < MAX_LOST) continue;
        if (!isLost && session === undefined && isForController(error)) {
          isByService = false;
          continue;
        }
        if (!isLost && session !== undefined && !isRenewed) {
          isRenewed = true;
          if (await outage.outlast(() => this.#isAboutSession(error, service, session))) continue;
        }
        await passing.waitOrThrow(error, edge).catch(async (final: unknown) => {
          const isWithoutRouters = final instanceof RouterError && final.code === "NO_ROUTERS";
          if (!isWithoutRouters) throw final;
          throw await abortable(services.noRouters(service, "Dial", final), signal).catch(() => final);
        });
        // They may be elsewhere by now.
        if (error instanceof RouterError) isRenewed = false;
      }
    }
  }

  /** By the access token alone: through the routers of the service, or through any that are connected as long as those are not known. */
  #wayByService(service: Service): Way | undefined {
    const connected = this.#parts.routers.connectingByService();
    if (connected.length === 0) return undefined;
    const known = this.#parts.services.routersOf(service) ?? [];
    return { routers: known.length > 0 ? known : connected };
  }

  async #wayBySession(service: Service): Promise<Way> {
    const session = await this.#sessionWithRouters(service);
    return { routers: session.routers, session };
  }

  /** For the next dials; this one did without. */
  #learnRouters(service: Service): void {
    this.#parts.services.learnRouters(service).catch((error: unknown) => {
      const fields = { service: service.name, reason: errorText(error) };
      this.#parts.log.debug(fields, "the controller does not say which routers a service has");
    });
  }

  async #sessionWithRouters(service: Service): Promise<ServiceSession> {
    const { services } = this.#parts;
    const session = await services.dialSession(service);
    return session.routers.length > 0 ? session : await services.renewDialSession(service, session);
  }

  /** After a failure: whether the controller no longer knows the session, or names other routers for it: one more try then. */
  async #isAboutSession(error: unknown, service: Service, used: ServiceSession): Promise<boolean> {
    const { services } = this.#parts;
    if (error instanceof RouterDialError && error.failure === "refused") {
      const isVoid = /invalid session/i.test(error.text);
      const renewed = await services.renewDialSession(service, used, isVoid);
      if (renewed.token !== used.token) return true;
      // Routers are taken from sessions, too.
      return /invalid edge router/i.test(error.text) && (lacksSome(renewed, used) || lacksSome(used, renewed));
    }
    if (!(error instanceof RouterError)) return false;
    return lacksSome(used, await services.renewDialSession(service, used));
  }
}

interface Way {
  readonly routers: readonly RouterAddress[];
  /** Undefined: routers decide by the access token. */
  readonly session?: ServiceSession;
}

/** What a router may not know yet, or decide by itself: whether there is such a service, session or policy, and which routers a service has. */
const codesForController = new Set<number | undefined>([
  EdgeErrorCode.InvalidApiSession,
  EdgeErrorCode.InvalidSession,
  EdgeErrorCode.InvalidEdgeRouterForSession,
  EdgeErrorCode.InvalidService,
  EdgeErrorCode.AccessDenied,
]);

/** Whether a dial without a session failed for a reason that the controller knows better. */
function isForController(error: unknown): boolean {
  if (error instanceof RouterError) return true;
  return error instanceof RouterDialError && error.failure === "refused" && codesForController.has(error.edgeCode);
}

/** Whether the other one names routers that this one does not. */
function lacksSome(session: ServiceSession, other: ServiceSession): boolean {
  return other.routers.some(({ address }) => !session.routers.some((router) => router.address === address));
}

/** Repeats a dial while routers come and go, as hosts and links follow them. In a network that stands still a failure is final. */
class PassingFailures {
  readonly #parts: ServiceDialerParts;
  readonly #service: string;
  readonly #signals: ServiceDial;
  /** Another router may have a way where these have none. */
  readonly refusedBy = new Set<EdgeChannel>();
  #since: number | undefined;
  readonly #backoff = new Backoff(pauses);

  constructor(parts: ServiceDialerParts, service: string, signals: ServiceDial) {
    this.#parts = parts;
    this.#service = service;
    this.#signals = signals;
  }

  /** @throws `error` when trying again is of no use or the time is over, or the caller's reason to give up */
  async waitOrThrow(error: unknown, edge: EdgeChannel | undefined): Promise<void> {
    const now = performance.now();
    this.#since ??= now;
    const mayPass =
      error instanceof RouterError ||
      (error instanceof RouterDialError && error.failure !== "unencrypted" && error.failure !== "posture");
    const leftMs = this.#since + PATIENCE_MS - now;
    if (!mayPass || !this.#parts.routers.isInMotion || leftMs <= 0) throw error;
    const fields = { service: this.#service, reason: errorText(error) };
    this.#parts.log.debug(fields, "routers come and go; the dial is tried again");
    if (edge !== undefined) this.refusedBy.add(edge);
    const { signal, given } = this.#signals;
    await pause(jittered(Math.min(this.#backoff.next(), leftMs), [0.75, 1.25]), signal);
    if (signal.aborted) throw given?.aborted === true ? given.reason : error;
  }
}

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1_000;
const SERVICE_UNAVAILABLE = 503;
/** Failures of the way to the controller, as the operating system names them; not those of its certificate. */
const systemFailure = /^E(?!RR_)[A-Z_]+$/;

/** Repeats the questions of one dial while the controller is away, as long as the dial's signal allows. A refusal is an answer. */
export class ControllerOutage {
  readonly #signal: AbortSignal;
  /** Why the controller could not be asked the last time; undefined when it answered. */
  reason: string | undefined;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** What `ask` gives, once the controller can be reached. @throws what the controller says, or the signal's reason */
  async outlast<T>(ask: () => Promise<T>): Promise<T> {
    const backoff = new Backoff({ firstMs: FIRST_PAUSE_MS, maxMs: MAX_PAUSE_MS });
    for (;;) {
      try {
        const answer = await abortable(ask(), this.#signal);
        this.reason = undefined;
        return answer;
      } catch (error) {
        if (!isAway(error)) throw error;
        this.reason = errorText(error);
      }
      await pause(backoff.next(), this.#signal);
      this.#signal.throwIfAborted();
    }
  }
}

/** The failure, or one that it was caused by, says that the controller is not there; not that it refuses. */
function isAway(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof ApiError) return cause.status === SERVICE_UNAVAILABLE;
    if (cause instanceof ApiTransportError) {
      const way = cause.cause;
      if (!(way instanceof Error)) return false;
      return way.name === "TimeoutError" || ("code" in way && systemFailure.test(String(way.code)));
    }
  }
  return false;
}
