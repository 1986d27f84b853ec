import { Listeners } from "@sallyport/async";
import { type LinkDialerConfig, OUT_QUEUE_SIZE } from "@sallyport/router-config";
import { boundedLog, type HttpProxy, type Identity, type LineBounds, type Logger } from "@sallyport/wire";
import { channelLimits } from "../config/options.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { MeasuredPool, type WorkPool } from "../metrics/work-pool.ts";
import {
  type DialBackoff,
  DialState,
  FORGET_AFTER_MS,
  type KnownPeer,
  type PeerChange,
  sharesGroup,
} from "./dial-state.ts";
import { Link, linkForm, linkKey } from "./link.ts";
import { dialLink } from "./link-dial.ts";
import { LinkRegistry } from "./link-registry.ts";
import { UnderlayRefill } from "./underlay-refill.ts";

/** A dialer of the configuration with its names resolved. */
export interface ResolvedDialer extends Omit<LinkDialerConfig, "bind"> {
  /** Name of its interface or IP, part of the link key; empty for none. */
  readonly bindingName: string;
  readonly localAddress?: string;
}

/** What the controllers are told. */
export interface LinkReports {
  established(link: Link): void;
  connectionsChanged(link: Link): void;
  failed(link: Link): void;
  duplicate(link: Link): void;
  /** The latency of a link is news: it was measured for the first time, or the link no longer answers. */
  measured(link: Link): void;
}

export interface LinkManagerOptions {
  readonly routerId: string;
  readonly identity: () => Identity;
  readonly dialers: readonly ResolvedDialer[];
  readonly heartbeats: { sendInterval: number; checkInterval: number; closeUnresponsiveTimeout: number };
  readonly dialWorkers: number;
  readonly dialQueueLength: number;
  /** Other routers are dialled through this proxy. */
  readonly proxy?: HttpProxy | undefined;
  /** Where links go when they are up. */
  readonly forwarder: Pick<Forwarder, "addLink" | "removeLink">;
  readonly reports: LinkReports;
  readonly log: Logger;
  /** How often due dials, missing connections and silent links are looked for; 1 s. */
  readonly lookMs?: number;
}

/** Lines about links in a minute; a neighbour may make and break its own as fast as it likes. */
const LINES: LineBounds = { perReason: 100, perMessage: 300 };

/**
 * Keeps a link to every router that shares a group with one of the dialers, and takes in those that others dial
 * (docs/protocol/links.md). Which routers there are, the controllers say; that links come back is decided here.
 */
export class LinkManager {
  readonly #o: LinkManagerOptions;
  readonly #log: Logger;
  readonly #registry: LinkRegistry;
  readonly #peers = new Map<string, KnownPeer>();
  readonly #states = new Map<string, DialState>();
  readonly #queue: MeasuredPool;
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #refills: UnderlayRefill;
  readonly #listeners = new Listeners<[Link]>();

  constructor(options: LinkManagerOptions) {
    this.#o = options;
    this.#log = boundedLog(options.log, LINES);
    this.#queue = new MeasuredPool(options.dialWorkers, options.dialQueueLength);
    this.#registry = new LinkRegistry(
      {
        added: (link) => this.#added(link),
        replaced: (link) => options.reports.duplicate(link),
        removed: (link, wasCurrent, reason, heir) => this.#removed(link, wasCurrent, reason, heir),
      },
      this.#log,
    );
    this.#refills = new UnderlayRefill({ signal: this.#stop.signal, log: options.log });
    this.#timer = setInterval(() => this.#look(), options.lookMs ?? 1000);
    this.#timer.unref();
  }

  get dialers(): WorkPool {
    return this.#queue;
  }

  links(): Link[] {
    return this.#registry.current();
  }

  states(): DialState[] {
    return [...this.#states.values()];
  }

  peers(): KnownPeer[] {
    return [...this.#peers.values()];
  }

  /** Calls `listener` with each link that is made from now on, before anything passes it. */
  onLink(listener: (link: Link) => void): void {
    this.#listeners.add(listener);
  }

  accepted(link: Link): void {
    this.#registry.register(link);
  }

  /** What a controller says about other routers. */
  peersChanged(changes: readonly PeerChange[]): void {
    for (const change of changes) {
      if (change.id === this.#o.routerId || change.id === "") continue;
      if (change.state === "removed") this.#peerRemoved(change.id);
      else if (change.state === "unhealthy") this.#peerUnhealthy(change.id);
      else this.#peerHealthy(change);
    }
    this.#dialDue();
  }

  /** A controller says that a link is broken; a fault of an older iteration means an earlier link. */
  fault(linkId: string, iteration: number): void {
    const link = this.#registry.byId(linkId);
    if (link === undefined || (iteration > 0 && iteration < link.iteration)) return;
    link.close(new Error("a controller asked to close this link: it is broken, or a duplicate of another"));
  }

  close(): void {
    clearInterval(this.#timer);
    this.#stop.abort();
    this.#queue.close();
    this.#registry.close();
  }

  #peerHealthy(change: PeerChange): void {
    const known = this.#peers.get(change.id);
    const cameBack = known !== undefined && !known.isHealthy;
    const { id, version, listeners } = change;
    this.#peers.set(id, { id, version, listeners, isHealthy: true, unhealthySince: undefined });
    const wanted = new Map<string, DialState>();
    for (const [dialerIndex, dialer] of this.#o.dialers.entries()) {
      for (const listener of change.listeners) {
        if (!sharesGroup(dialer.groups, listener.groups)) continue;
        const key = linkKey({
          dialerBinding: dialer.bindingName,
          protocol: listener.protocol,
          peerId: change.id,
          listenerBinding: listener.localBinding,
        });
        if (wanted.has(key)) continue;
        const now = performance.now();
        const state = this.#states.get(key) ?? new DialState({ key, peerId: change.id, dialerIndex, listener, now });
        wanted.set(key, state);
        this.#states.set(key, state);
        if (this.#registry.byKey(key) !== undefined && state.status === "pending") state.established(performance.now());
        const hasMoved = state.listener.address !== listener.address;
        state.listener = listener;
        if (hasMoved) this.#registry.byKey(key)?.close(new Error("the listener's address changed"));
        if (cameBack) state.hurry(now);
      }
    }
    for (const state of this.#statesOf(change.id)) {
      if (!wanted.has(state.key)) this.#drop(state, "the peer no longer has a listener in a common group");
    }
  }

  #peerUnhealthy(id: string): void {
    const known = this.#peers.get(id);
    if (known === undefined) return;
    known.isHealthy = false;
    known.unhealthySince ??= performance.now();
  }

  #peerRemoved(id: string): void {
    this.#peers.delete(id);
    for (const state of this.#statesOf(id)) this.#drop(state, "the router was removed");
    for (const link of this.links()) if (link.peerId === id) link.close(new Error("the router was removed"));
  }

  #statesOf(peerId: string): DialState[] {
    return this.states().filter((state) => state.peerId === peerId);
  }

  #drop(state: DialState, why: string): void {
    state.status = "destRemoved";
    this.#states.delete(state.key);
    this.#registry.byKey(state.key)?.close(new Error(why));
  }

  #look(): void {
    const now = performance.now();
    for (const peer of this.#peers.values()) {
      const gone = peer.unhealthySince !== undefined && now - peer.unhealthySince > FORGET_AFTER_MS;
      if (gone && !this.links().some((link) => link.peerId === peer.id)) this.#peerRemoved(peer.id);
    }
    for (const state of this.#states.values()) {
      // Repairs a state that believes in a link which is not there.
      if (state.status === "established" && this.#registry.byKey(state.key) === undefined) this.#linkFailed(state, now);
    }
    for (const link of this.links()) {
      if (link.checkAnswers(now)) this.#o.reports.measured(link);
      link.probeQueue();
      if (link.connectionsChanged() && link.isDialed) this.#o.reports.connectionsChanged(link);
      this.#refill(link);
    }
    this.#dialDue();
  }

  #dialDue(): void {
    if (this.#stop.signal.aborted) return;
    for (const state of this.#states.values()) {
      if (!state.isDue(performance.now())) continue;
      state.dialing();
      if (!this.#queue.run(() => this.#dial(state))) this.#failed(state, "queueFailed");
    }
  }

  async #dial(state: DialState): Promise<void> {
    const dialer = this.#o.dialers[state.dialerIndex];
    const peer = this.#peers.get(state.peerId);
    if (dialer === undefined || peer === undefined || state.status !== "dialing" || this.#stop.signal.aborted) return;
    const { routerId, identity } = this.#o;
    const { address, protocol } = state.listener;
    try {
      const dialed = await dialLink(
        {
          linkId: state.linkId,
          iteration: state.iteration,
          form: linkForm(peer.version, dialer.split),
          peerId: peer.id,
          peerVersion: peer.version,
          address,
          dialerBinding: dialer.bindingName,
          timeoutMs: dialer.options.connectTimeoutMs,
          localAddress: dialer.localAddress,
          limits: channelLimits(dialer.options, OUT_QUEUE_SIZE.channel),
          proxy: this.#o.proxy,
        },
        { routerId, identity: identity(), log: this.#log, signal: this.#stop.signal },
      );
      const link = new Link({
        id: state.linkId,
        key: state.key,
        peerId: peer.id,
        peerVersion: peer.version,
        iteration: state.iteration,
        protocol,
        dialAddress: address,
        isDialed: true,
        ...dialed,
      });
      const isWanted = this.#states.get(state.key) === state && !this.#stop.signal.aborted;
      if (!isWanted) {
        link.close(new Error("the link is no longer wanted"));
      } else if (state.listener.address !== address) {
        link.close(new Error("the listener's address changed"));
        state.moved(performance.now());
        this.#dialDue();
      } else if (this.#registry.register(link) || this.#registry.byKey(state.key) !== undefined)
        state.established(performance.now());
      else this.#failed(state, "dialFailed");
    } catch (error) {
      this.#failed(state, "dialFailed", error);
    }
  }

  #failed(state: DialState, how: "dialFailed" | "queueFailed", error?: unknown): void {
    if (this.#stop.signal.aborted) return;
    const backoff = this.#backoff(state);
    if (backoff === undefined) return;
    state.failed(how, backoff, performance.now(), Math.random());
    this.#log.info(
      {
        peerId: state.peerId,
        address: state.listener.address,
        iteration: state.iteration,
        retryInMs: Math.round(state.retryDelay),
        reason: error instanceof Error ? error.message : how,
      },
      "link dial failed",
    );
  }

  #added(link: Link): void {
    const { forwarder, reports, heartbeats } = this.#o;
    this.#listeners.emit(link);
    forwarder.addLink(link);
    if (link.ackChannel !== undefined) link.ackChannel.onFrame = link.channel.onFrame;
    const options = {
      sendIntervalMs: heartbeats.sendInterval,
      checkIntervalMs: heartbeats.checkInterval,
      closeUnresponsiveMs: heartbeats.closeUnresponsiveTimeout,
    };
    // OpenZiti's routers close a link when its half for acknowledgements answers no heartbeat.
    link.ackChannel?.enableHeartbeats(options);
    let measured = false;
    link.channel.enableHeartbeats({
      ...options,
      onLatency: (ns) => {
        link.answered(Number(ns));
        if (!measured) reports.measured(link);
        measured = true;
      },
    });
    const { id: linkId, peerId, iteration, isDialed: dialed, form } = link;
    this.#log.info({ linkId, peerId, iteration, dialed, form }, "link established");
    const state = this.#states.get(link.key);
    if (state !== undefined && state.status !== "dialing") state.established(performance.now());
    if (link.isDialed) reports.established(link);
    this.#refill(link);
  }

  #removed(link: Link, wasCurrent: boolean, reason: Error | undefined, heir: Link | undefined): void {
    this.#o.forwarder.removeLink(link.id, link.channel);
    if (this.#stop.signal.aborted) return;
    const { id: linkId, peerId, iteration } = link;
    this.#log.info({ linkId, peerId, iteration, reason: reason?.message, wasCurrent }, "link closed");
    if (!wasCurrent) return;
    this.#o.reports.failed(link);
    if (heir !== undefined) return;
    const state = this.#states.get(link.key);
    if (state !== undefined) this.#linkFailed(state, performance.now());
    this.#dialDue();
  }

  #linkFailed(state: DialState, now: number): void {
    const backoff = this.#backoff(state);
    if (backoff !== undefined) state.linkFailed(now, backoff);
  }

  #backoff(state: DialState): DialBackoff | undefined {
    const dialer = this.#o.dialers[state.dialerIndex];
    const healthy = this.#peers.get(state.peerId)?.isHealthy === true;
    return healthy ? dialer?.healthyDialBackoff : dialer?.unhealthyDialBackoff;
  }

  #refill(link: Link): void {
    const state = this.#states.get(link.key);
    const dialer = state === undefined ? undefined : this.#o.dialers[state.dialerIndex];
    if (!link.isDialed || link.form !== "grouped" || dialer === undefined) return;
    this.#refills.look(link, { ...dialer, connectTimeoutMs: dialer.options.connectTimeoutMs });
  }
}
