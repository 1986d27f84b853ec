import { randomUUID } from "node:crypto";
import { EventEmitter } from "node:events";
import { abortable, Backoff, errorText } from "@sallyport/async";
import { type Logger, type PrecedenceName, precedenceOf } from "@sallyport/wire";
import type { ApiSession, IdentityInfo } from "../api-session.ts";
import { EdgeConnection } from "../circuit/connection.ts";
import { loadSodium } from "../crypto/load-sodium.ts";
import type { KeyPair } from "../crypto/sodium.ts";
import { ListenError, ServiceError } from "../errors.ts";
import type { RouterAddress } from "../router-address.ts";
import type { RouterPool } from "../router-pool.ts";
import type { Service, ServiceDirectory, ServiceSession } from "../service-directory.ts";
import { Binding, type BindTerms } from "./binding.ts";
import type { IncomingDial } from "./incoming-dial.ts";

/** How a service is hosted; everything is optional. */
export interface ListenOptions {
  /** Routers to be reachable through at the same time; 3 when left out. */
  readonly maxTerminators?: number;
  /** 0 to 65535: the higher, the fewer connections this host gets. The identity's own cost for the service when left out. */
  readonly cost?: number;
  /** `required` hosts are chosen before `default` ones, `failed` ones last. The identity's own for the service when left out. */
  readonly precedence?: PrecedenceName;
  /** Instance id: dialers can ask for this host by it. */
  readonly instance?: string;
  /** Only hosts with the same secret may share an instance id. */
  readonly instanceSecret?: Uint8Array;
  /** As with `net.createServer`: false (when left out) ends connections when the dialer has ended. HTTP servers want true. */
  readonly allowHalfOpen?: boolean;
  /** Answers every dial itself, instead of `connection` events: see {@link IncomingDial}. */
  readonly onDial?: (dial: IncomingDial) => void;
  /** Ends waiting for the first router; the listener is closed. */
  readonly signal?: AbortSignal;
}

/** What of an offer can be changed later; the rest stays. */
export type OfferChange = { readonly [Key in "cost" | "precedence"]?: ListenOptions[Key] | undefined };

/**
 * What a listener works with.
 *
 * @internal
 */
export interface ListenerParts {
  readonly session: ApiSession;
  readonly services: ServiceDirectory;
  readonly routers: RouterPool;
  readonly log: Logger;
}

interface ListenerEvents {
  connection: [connection: EdgeConnection];
  /** The service can be dialled: the first terminator exists, or one exists again after all were lost. */
  listening: [];
  close: [];
  /** This identity may no longer host the service. The listener goes on trying. */
  error: [error: Error];
}

const retries = { firstMs: 1_000, maxMs: 30_000, jitter: [0.75, 1.25] } as const;
/** When enough terminators exist nothing is asked; with fewer, the controller is asked for new routers this often. */
const LOOK_AGAIN_MS = 30_000;
/** Looking for routers goes on after this time, whether those that were found are connected or not. */
const CONNECTING_MS = 3_000;

/**
 * A hosted service, in the shape of `net.Server`: emits `connection` for every dialer. It stays reachable through
 * several routers, and offers itself again when one of them goes away.
 */
export class ServiceListener extends EventEmitter<ListenerEvents> {
  readonly service: string;
  readonly #parts: ListenerParts;
  readonly #options: ListenOptions;
  readonly #listenerId = randomUUID();
  /** By the router's name: at another address it is the same router, where a second bind would end the first. */
  readonly #bindings = new Map<string, Binding>();
  readonly #stopped = new AbortController();
  #keys: KeyPair | undefined;
  #session: ServiceSession | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;
  #lookAgain = false;
  /** Addresses of routers that hosted the service and were lost. */
  readonly #lost = new Set<string>();
  /** Routers of this service that were connected again: they are bound without asking the controller. */
  #returned: RouterAddress[] = [];
  /** Addresses that are being connected. */
  readonly #connecting = new Set<string>();
  readonly #unfollow: () => void;
  readonly #backoff = new Backoff(retries);
  #cost: number | undefined;
  #precedence: ListenOptions["precedence"];
  /** For what the options leave out. */
  #defaults: ReturnType<typeof hostingDefaults> | undefined;
  #lastRefusal = "";
  /** Why there is no router to host on. */
  #obstacle: string | undefined;
  /** Connections that came before the application could ask for them. */
  #early: EdgeConnection[] | undefined = [];

  /** @internal */
  constructor(service: string, parts: ListenerParts, options: ListenOptions) {
    super();
    this.service = service;
    this.#parts = parts;
    this.#options = options;
    this.#cost = options.cost;
    this.#precedence = options.precedence;
    this.#unfollow = parts.routers.onConnected((router) => this.#connected(router));
  }

  /** The service can be dialled through at least one router. */
  get listening(): boolean {
    return [...this.#bindings.values()].some((binding) => binding.isEstablished);
  }

  /** Names and addresses of the routers it is reachable through. */
  get routers(): string[] {
    return [...this.#bindings.values()].filter((each) => each.isEstablished).map((each) => each.edge.router);
  }

  /**
   * Offers the service; resolves when the first terminator exists.
   *
   * @throws ServiceError when this identity may not host it, ListenError `LISTENER_CLOSED` or `OPTION_INVALID`, or the
   *   signal's reason
   */
  async start(): Promise<void> {
    const { signal } = this.#options;
    mustBeWithin("maxTerminators", this.#options.maxTerminators, 1, 1_000);
    mustBeWithin("cost", this.#options.cost, 0, 65_535);
    signal?.throwIfAborted();
    await abortable(this.#parts.services.find(this.service, "Bind"), signal);
    if (this.#stopped.signal.aborted) throw this.#closedError();
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => {
        signal?.removeEventListener("abort", onAbort);
        this.off("listening", onListening);
        this.off("close", onClose);
        act();
      };
      const onListening = () => {
        settle(resolve);
        // Who waits for this promise has added its listeners by then.
        setImmediate(() => this.#handOverEarly());
      };
      const onClose = () => settle(() => reject(this.#closedError()));
      const onAbort = () => {
        settle(() => reject(signal?.reason));
        void this.close();
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.once("listening", onListening);
      this.once("close", onClose);
      this.#look();
    });
  }

  /** Changes how likely this host is chosen, now and on every router to come. @throws ListenError `OPTION_INVALID` */
  update(o: OfferChange): void {
    mustBeWithin("cost", o.cost, 0, 65_535);
    if (o.cost !== undefined) this.#cost = o.cost;
    if (o.precedence !== undefined) this.#precedence = o.precedence;
    const precedence = o.precedence === undefined ? undefined : precedenceOf(o.precedence);
    for (const binding of this.#bindings.values()) binding.update({ cost: o.cost, precedence });
  }

  /** Tells the network, through every router, whether the application behind this host is well. */
  healthEvent(passed: boolean): void {
    for (const binding of this.#bindings.values()) binding.healthEvent(passed);
  }

  /** Takes the service back from every router. Connections that exist go on. */
  async close(): Promise<void> {
    if (this.#stopped.signal.aborted) return;
    this.#stopped.abort(this.#closedError());
    this.#unfollow();
    clearTimeout(this.#timer);
    for (const binding of this.#bindings.values()) binding.close();
    this.#bindings.clear();
    this.#handOverEarly();
    this.emit("close");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The API session was replaced: tokens made with it are void. */
  reset(): void {
    this.#session = undefined;
    this.#look();
  }

  /** Routers may be where they were not before. */
  lookAgain(): void {
    if (this.#bindings.size < this.#wanted) this.#look();
  }

  get #wanted(): number {
    return this.#options.maxTerminators ?? 3;
  }

  /** A router was connected: as a rule one that has just restarted. */
  #connected(router: RouterAddress): void {
    if (this.#bindings.size >= this.#wanted || this.#isBound(router) || this.#session === undefined) return;
    // One that was away may not be among those of the session.
    const isOurs = this.#session.routers.some(({ address }) => address === router.address);
    if (!isOurs && !this.#lost.has(router.address)) return;
    this.#returned.push(router);
    this.#look();
  }

  #isBound({ name, address }: RouterAddress): boolean {
    return this.#bindings.has(name) || this.#connecting.has(address);
  }

  #closedError(): ListenError {
    const why = this.#lastRefusal === "" ? "" : `; last refusal: ${this.#lastRefusal}`;
    return new ListenError("LISTENER_CLOSED", `hosting of ${this.service} was ended${why}`);
  }

  /** Brings the number of terminators up to what is wanted; one look at a time. */
  #look(): void {
    if (this.#stopped.signal.aborted) return;
    if (this.#isLooking) {
      this.#lookAgain = true;
      return;
    }
    clearTimeout(this.#timer);
    this.#isLooking = true;
    this.#bindWhereMissing()
      .then(
        (missing) => this.#schedule(missing ? this.#backoff.next() : LOOK_AGAIN_MS),
        (error: unknown) => {
          this.#parts.log.warn({ service: this.service, reason: errorText(error) }, "hosting failed; trying again");
          if (error instanceof ServiceError && this.listenerCount("error") > 0) this.emit("error", error);
          this.#schedule(this.#backoff.next());
        },
      )
      .finally(() => {
        this.#isLooking = false;
        if (this.#lookAgain) {
          this.#lookAgain = false;
          this.#look();
        }
      });
  }

  #schedule(delayMs: number): void {
    if (this.#stopped.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), delayMs);
  }

  /** @returns whether there is a router left that should be bound and is not */
  async #bindWhereMissing(): Promise<boolean> {
    const wanted = this.#wanted;
    if (this.#bindings.size >= wanted) return false;
    const { services } = this.#parts;
    const service = await services.find(this.service, "Bind");
    const returned = this.#returned.splice(0);
    const used = this.#session;
    const known = used === undefined || returned.length > 0 ? used : await services.refreshSession(used);
    const session = known ?? (await services.createSession(service, "Bind"));
    this.#session = session;
    await this.#tellObstacle(service, session);
    if (this.#defaults === undefined || returned.length === 0) await this.#learnDefaults(service);
    const hosting = await this.#hosting(service, session);
    const free = (returned.length > 0 ? returned : session.routers).filter((router) => !this.#isBound(router));
    const bound = Promise.all(free.slice(0, wanted - this.#bindings.size).map((router) => this.#bind(router, hosting)));
    // One that cannot be reached does not keep the others waiting that come back meanwhile.
    await abortable(bound, AbortSignal.timeout(CONNECTING_MS)).catch(() => {});
    return this.#bindings.size < Math.min(wanted, Math.max(session.routers.length, 1));
  }

  /** Says once why there is no router to host on. */
  async #tellObstacle(service: Service, { routers }: ServiceSession): Promise<void> {
    const { services, log } = this.#parts;
    const obstacle = routers.length > 0 ? undefined : (await services.noRouters(service, "Bind")).message;
    if (obstacle !== undefined && obstacle !== this.#obstacle) {
      this.#lastRefusal = obstacle;
      log.warn({ service: this.service, reason: obstacle }, "a service cannot be hosted; trying again");
    }
    this.#obstacle = obstacle;
  }

  async #bind(router: RouterAddress, hosting: BindTerms): Promise<void> {
    const { log, routers } = this.#parts;
    const fields = { service: this.service, router: router.name };
    this.#connecting.add(router.address);
    try {
      const edge = await routers.connect(router, this.#stopped.signal);
      if (this.#stopped.signal.aborted || this.#bindings.size >= this.#wanted) return;
      if (this.#bindings.has(router.name)) return;
      const binding: Binding = new Binding(edge, hosting, {
        established: () => {
          this.#backoff.reset();
          this.#lost.delete(router.address);
          log.info(fields, "service is hosted on a router");
          this.emit("listening");
        },
        ended: (text) => {
          log.info({ ...fields, reason: text }, "a router no longer hosts the service");
          this.#lastRefusal = `${router.name}: ${text}`;
          if (/invalid session|session ended/i.test(text)) this.#session = undefined;
          if (this.#bindings.get(router.name) === binding) this.#bindings.delete(router.name);
          if (binding.isEstablished) this.#lost.add(router.address);
          this.#schedule(this.#backoff.next());
        },
        dialled: (dial) => this.#dialled(dial),
      });
      this.#bindings.set(router.name, binding);
    } catch (error) {
      log.info({ ...fields, reason: errorText(error) }, "the service cannot be hosted on a router");
    } finally {
      this.#connecting.delete(router.address);
    }
  }

  #dialled(dial: IncomingDial): void {
    const { onDial, allowHalfOpen } = this.#options;
    if (onDial !== undefined) {
      onDial(dial);
      return;
    }
    dial.accept().then(
      (messages) => this.#accepted(new EdgeConnection(messages, { allowHalfOpen: allowHalfOpen ?? false })),
      // Gone before it began: its router's end of the binding says why.
      (error: unknown) => this.#parts.log.debug({ service: this.service, reason: errorText(error) }, "a dial was lost"),
    );
  }

  #accepted(connection: EdgeConnection): void {
    if (this.#early !== undefined) {
      connection.on("error", ignore);
      this.#early.push(connection);
      return;
    }
    if (!this.emit("connection", connection)) connection.destroy();
  }

  #handOverEarly(): void {
    const early = this.#early ?? [];
    this.#early = undefined;
    for (const connection of early) {
      connection.off("error", ignore);
      if (!connection.destroyed) this.#accepted(connection);
    }
  }

  async #learnDefaults(service: Service): Promise<void> {
    if (this.#cost !== undefined && this.#precedence !== undefined) return;
    this.#defaults = hostingDefaults(await this.#parts.session.identity(), service.id);
  }

  async #hosting(service: Service, session: ServiceSession): Promise<BindTerms> {
    const login = await this.#parts.session.login();
    const { instance, instanceSecret } = this.#options;
    const sodium = service.encryptionRequired ? await loadSodium() : undefined;
    this.#keys ??= sodium?.createKeyPair();
    return {
      service: service.name,
      sessionToken: session.token,
      listenerId: this.#listenerId,
      identityName: login.identityName,
      crypto: sodium === undefined || this.#keys === undefined ? undefined : { sodium, keys: this.#keys },
      cost: this.#cost ?? this.#defaults?.cost,
      precedence: precedenceOf(this.#precedence ?? this.#defaults?.precedence ?? "default"),
      instance,
      instanceSecret,
    };
  }
}

function mustBeWithin(name: string, value: number | undefined, least: number, most: number): void {
  if (value === undefined || (Number.isInteger(value) && value >= least && value <= most)) return;
  throw new ListenError("OPTION_INVALID", `${name}: expected a whole number from ${least} to ${most}, got ${value}`);
}

/** A connection that fails before the application has it is dropped. */
function ignore(): void {}

/** What administrators gave the identity for a service, and where they gave nothing for it, for all services (docs/sdk.md "Hosting"). */
function hostingDefaults(identity: IdentityInfo, serviceId: string) {
  return {
    cost: identity.serviceHostingCosts[serviceId] ?? identity.defaultHostingCost,
    precedence: identity.serviceHostingPrecedences[serviceId] ?? identity.defaultHostingPrecedence,
  };
}
