import { abortable, backoffDelay, errorText, Listeners } from "@sallyport/async";
import {
  BaseHeader,
  type Channel,
  dialChannel,
  dialUnderlay,
  EDGE_ALPN,
  EdgeHeader,
  Headers,
  type Logger,
} from "@sallyport/wire";
import { CircuitSupplies, EdgeChannel } from "./edge-channel.ts";
import { RouterError } from "./errors.ts";
import type { LoginResult } from "./login/login.ts";
import { LostRouters } from "./lost-routers.ts";
import { NO_ROUTERS, type RouterAddress } from "./router-address.ts";

const CONNECT_TIMEOUT_MS = 15_000;
const DEFAULT_DRAIN_MS = 2_000;
/** How often a quiet connection is looked at. */
const WATCH_INTERVAL_MS = 5_000;
/** A connection that ends this soon, and was of no use, was probably refused: the router closes without a word. */
const REFUSAL_WINDOW_MS = 10_000;
const backoff = { firstMs: 1_000, maxMs: 60_000, jitter: [0.75, 1.25] } as const;

export interface RouterPoolOptions {
  readonly login: () => Promise<LoginResult>;
  readonly log: Logger;
  /** Called when a router closed a connection right away: the session may be unknown to it. */
  readonly onRefused: () => void;
  /** Called when a router that was lost is not there again: it may have moved. */
  readonly onMissing?: (() => void) | undefined;
  /** TCP connections to each router, if it supports several; 1 when left out. */
  readonly connections?: number | undefined;
}

/**
 * The connections to routers: one per address, made when needed, shared by everything in a context, and made again when
 * they are lost. A connection that an unread stream has paused is replaced by another one.
 */
export class RouterPool {
  readonly #o: RouterPoolOptions;
  readonly #log: Logger;
  readonly #channels = new Map<string, Promise<EdgeChannel>>();
  readonly #open = new Map<string, EdgeChannel>();
  /** Also those that stand still and are no longer offered. */
  readonly #all = new Map<EdgeChannel, RouterAddress>();
  /** Routers that failed last, by address: how often, and until when they are left alone. */
  readonly #failed = new Map<string, { times: number; until: number }>();
  readonly #lost: LostRouters;
  readonly #listeners = new Listeners<[router: RouterAddress]>();
  readonly #connections: number;
  readonly #circuits = new CircuitSupplies();
  readonly #probes: NodeJS.Timeout;
  #isClosed = false;

  constructor(o: RouterPoolOptions) {
    this.#connections = o.connections ?? 1;
    this.#o = o;
    this.#log = o.log;
    this.#lost = new LostRouters({
      connect: (router) => this.#attempt(router),
      onMissing: o.onMissing ?? (() => {}),
    });
    this.#probes = setInterval(() => {
      for (const edge of this.#all.keys()) edge.watch();
    }, WATCH_INTERVAL_MS);
    this.#probes.unref();
  }

  /** Routers went or came back a moment ago: hosts and links may be on their way. */
  get isInMotion(): boolean {
    return this.#lost.isInMotion;
  }

  /** `listener` is called whenever a router is connected. @returns ends that */
  onConnected(listener: (router: RouterAddress) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** What the controller says of the routers that are online now. */
  located(routers: readonly RouterAddress[]): void {
    this.#lost.located(routers);
  }

  /** A router says that it stops: what is open on it goes on, nothing new is made on it. */
  leaves(edge: EdgeChannel): void {
    edge.leave();
    this.#lost.leaves();
  }

  /** The session goes on with this token: routers end what they know by the former one. */
  updateToken(token: string): void {
    for (const [edge, router] of this.#all) void this.#updateToken(edge, router, token);
  }

  /** What is open on a connection whose router does not take the token goes on for as long as the router lets it. */
  async #updateToken(edge: EdgeChannel, router: RouterAddress, token: string): Promise<void> {
    try {
      await edge.updateToken(token);
    } catch (error) {
      if (edge.isClosed || !this.#all.has(edge)) return;
      const fields = { router: router.name, reason: errorText(error) };
      this.#log.warn(fields, "a router does not take the next token of the session; it is connected again");
      this.leaves(edge);
      await this.#attempt(router).catch(() => undefined);
    }
  }

  /**
   * The connected router with the shortest round trip. The others are connected meanwhile, those that failed lately after a
   * growing pause. When none is connected, all are dialled, and the first that answers is taken.
   *
   * @param avoided not taken as long as another one is connected
   * @throws RouterError `NO_ROUTERS` when the list is empty, `ROUTERS_UNREACHABLE` when none answers
   */
  async best(
    routers: readonly RouterAddress[],
    signal: AbortSignal,
    avoided?: ReadonlySet<EdgeChannel>,
  ): Promise<EdgeChannel> {
    const connected = routers.flatMap((router) => {
      const edge = this.#open.get(router.address);
      return edge === undefined || edge.isPaused ? [] : [edge];
    });
    const now = performance.now();
    const tried =
      connected.length === 0
        ? routers
        : routers.filter((router) => (this.#failed.get(router.address)?.until ?? 0) <= now);
    const attempts = tried.map((router) => this.connect(router, signal));
    for (const attempt of attempts) attempt.catch(() => {});
    if (connected.length > 0) {
      const others = connected.filter((edge) => avoided?.has(edge) !== true);
      const offered = others.length > 0 ? others : connected;
      return offered.reduce((best, edge) => ((edge.latencyMs ?? 1e9) < (best.latencyMs ?? 1e9) ? edge : best));
    }
    if (attempts.length === 0) {
      throw new RouterError("NO_ROUTERS", NO_ROUTERS);
    }
    try {
      return await Promise.any(attempts);
    } catch (error) {
      signal.throwIfAborted();
      const reasons = error instanceof AggregateError ? error.errors.map(errorText) : [errorText(error)];
      const text = `no edge router could be reached: ${reasons.join("; ")}`;
      throw new RouterError("ROUTERS_UNREACHABLE", text, { cause: error });
    }
  }

  /** The connected routers at which an access token is enough to dial a service. */
  connectingByService(): RouterAddress[] {
    return [...this.#open.values()].flatMap((edge) => {
      const router = this.#all.get(edge);
      return router !== undefined && edge.connectsByService && !edge.isPaused ? [router] : [];
    });
  }

  /** The connection to one router. @throws RouterError `ROUTER_UNREACHABLE`, or the signal's reason */
  async connect(router: RouterAddress, signal: AbortSignal): Promise<EdgeChannel> {
    return await abortable(this.#attempt(router), signal);
  }

  #attempt(router: RouterAddress): Promise<EdgeChannel> {
    let attempt = this.#channels.get(router.address);
    if (attempt === undefined || this.#open.get(router.address)?.isPaused === true) {
      this.#open.delete(router.address);
      attempt = this.#dial(router);
      this.#channels.set(router.address, attempt);
      const own = attempt;
      own.catch(() => {
        this.#leaveAlone(router);
        if (this.#channels.get(router.address) === own) this.#channels.delete(router.address);
      });
    }
    return attempt;
  }

  /** Ends all connections, and everything on them: with an error when there is a reason. */
  closeAll(reason?: Error): void {
    const edges = [...this.#all.keys()];
    // What is not among them any more was not lost.
    this.#all.clear();
    for (const edge of edges) edge.channel.close(reason);
    this.#open.clear();
    this.#channels.clear();
    this.#failed.clear();
    this.#lost.clear();
  }

  /**
   * Ends all connections, as soon as the other ends have what was written on those that were closed before.
   *
   * @param o.drainMs how long they may take to acknowledge the last bytes; 2 s when absent
   */
  async close(o: { readonly drainMs?: number } = {}): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#probes);
    this.#lost.close();
    await Promise.all([...this.#all.keys()].map((edge) => edge.drained(o.drainMs ?? DEFAULT_DRAIN_MS)));
    this.closeAll();
    this.#circuits.close();
  }

  #leaveAlone(router: RouterAddress): void {
    const times = (this.#failed.get(router.address)?.times ?? 0) + 1;
    this.#failed.set(router.address, { times, until: performance.now() + backoffDelay(times, backoff) });
  }

  async #dial(router: RouterAddress): Promise<EdgeChannel> {
    const login = await this.#o.login();
    const fail = (cause: unknown) => {
      const text = `router ${router.name} at ${router.address}: ${errorText(cause)}`;
      return new RouterError("ROUTER_UNREACHABLE", text, { cause });
    };
    const channel = await dialChannel({
      address: router.address,
      identity: login.identity,
      alpn: EDGE_ALPN,
      hello: { idToken: login.identity.id, headers: this.#helloHeaders(login) },
      timeoutMs: CONNECT_TIMEOUT_MS,
      log: this.#log,
    }).catch((error: unknown) => {
      throw fail(error);
    });
    if (this.#isClosed) {
      channel.close();
      throw fail(new Error("the context was closed"));
    }
    const edge = new EdgeChannel(channel, `${router.name} (${router.address})`, this.#circuits);
    const openedAt = performance.now();
    this.#open.set(router.address, edge);
    this.#all.set(edge, router);
    channel.onClose((reason) => {
      const isLost = this.#all.delete(edge);
      if (this.#open.get(router.address) === edge) {
        this.#open.delete(router.address);
        this.#channels.delete(router.address);
      }
      if (this.#isClosed) return;
      this.#log.info({ router: router.name, reason: reason?.message }, "the connection to a router ended");
      if (!isLost) return;
      if (edge.hasServed || performance.now() - openedAt >= REFUSAL_WINDOW_MS) {
        this.#failed.delete(router.address);
        this.#lost.lost(router);
      } else {
        this.#leaveAlone(router);
        this.#lost.refused(router);
        this.#o.onRefused();
      }
    });
    this.#lost.connected(router);
    this.#listeners.emit(router);
    void edge.probe();
    keepConnections(channel, this.#connections, this.#log);
    return edge;
  }

  #helloHeaders(login: LoginResult): Headers {
    const headers = new Headers().setString(EdgeHeader.SessionToken, login.token);
    return this.#connections > 1 ? askForGroup(headers) : headers;
  }
}

const UNDERLAY_TYPE = "edge.default";
const CHECK_MS = 2_000;
const MAX_WAIT_MS = 60_000;

/** Asks a router for a channel of several connections; one that knows no such thing answers with a plain channel. */
export function askForGroup(headers: Headers): Headers {
  return headers
    .setBool(BaseHeader.IsGrouped, true)
    .setString(BaseHeader.Type, UNDERLAY_TYPE)
    .setBool(BaseHeader.IsFirstGroupConnection, true);
}

/** Keeps a channel at `wanted` connections as long as it lives, with a pause that grows after failures: it works with fewer, too. */
function keepConnections(channel: Channel, wanted: number, log: Logger): void {
  if (!channel.isGrouped || wanted < 2) return;
  let failures = 0;
  let waitUntil = 0;
  let isDialling = false;
  const look = async (): Promise<void> => {
    if (isDialling || performance.now() < waitUntil) return;
    isDialling = true;
    try {
      while (!channel.isClosed && channel.underlays.length < wanted) {
        await dialUnderlay(channel, { type: UNDERLAY_TYPE });
        failures = 0;
      }
    } catch (error) {
      failures++;
      waitUntil = performance.now() + Math.min(2_000 * failures, MAX_WAIT_MS);
      if (!channel.isClosed)
        log.info({ channel: channel.label, reason: errorText(error) }, "no further connection to a router");
    } finally {
      isDialling = false;
    }
  };
  const timer = setInterval(() => void look(), CHECK_MS);
  timer.unref();
  channel.onClose(() => clearInterval(timer));
  void look();
}
