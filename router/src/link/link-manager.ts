import type { LinkDialerConfig } from "@sallyport/router-config";
import { dialUnderlay, type Identity, LinkUnderlay, type Logger } from "@sallyport/wire";
import { CHANNEL_QUEUE, channelLimits } from "../config/channel-limits.ts";
import { WorkQueue } from "../control/work-queue.ts";
import type { LinkPort } from "../forwarder/forwarder.ts";
import type { Backoff } from "./backoff.ts";
import { DialState } from "./dial-state.ts";
import { Link } from "./link.ts";
import { dialLink } from "./link-dial.ts";
import { linkForm } from "./link-form.ts";
import { linkKey } from "./link-key.ts";
import { LinkRegistry } from "./link-registry.ts";
import { FORGET_AFTER_MS, type KnownPeer, type PeerChange, sharesGroup } from "./peers.ts";

/** A dialer of the configuration with its names resolved. */
export interface ResolvedDialer extends Omit<LinkDialerConfig, "bind"> {
  /** Name of its interface or IP, part of the link key; empty for none. */
  readonly bindingName: string;
  readonly localAddress?: string;
}

/** Where links go when they are up. */
export interface LinkForwarder {
  addLink(port: LinkPort): void;
  removeLink(id: string, channel?: LinkPort["channel"]): void;
}

/** What the controllers are told. */
export interface LinkReports {
  established(link: Link): void;
  connectionsChanged(link: Link): void;
  failed(link: Link): void;
  duplicate(link: Link): void;
  /** The first latency of a link was measured. */
  measured(link: Link): void;
}

export interface LinkManagerOptions {
  readonly routerId: string;
  readonly identity: () => Identity;
  readonly dialers: readonly ResolvedDialer[];
  readonly heartbeats: { sendInterval: number; checkInterval: number; closeUnresponsiveTimeout: number };
  readonly dialWorkers: number;
  readonly dialQueueLength: number;
  readonly forwarder: LinkForwarder;
  readonly reports: LinkReports;
  readonly log: Logger;
  /** How often due dials, missing connections and silent links are looked for; 1 s. */
  readonly lookMs?: number;
}

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
  readonly #queue: WorkQueue;
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;
  /** Grouped links whose missing connections are being dialled. */
  readonly #refilling = new Set<Link>();
  /** Links whose startup delay is over: a connection they lose is dialled again without it. */
  readonly #started = new WeakSet<Link>();

  constructor(options: LinkManagerOptions) {
    this.#o = options;
    this.#log = options.log;
    this.#queue = new WorkQueue(options.dialWorkers, options.dialQueueLength);
    this.#registry = new LinkRegistry(
      {
        added: (link, replaced) => this.#added(link, replaced),
        removed: (link, wasCurrent, reason) => this.#removed(link, wasCurrent, reason),
      },
      options.log,
    );
    this.#timer = setInterval(() => this.#look(), options.lookMs ?? 1000);
    this.#timer.unref();
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

  /** Takes in a link that another router dialled. */
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
    this.#peers.set(change.id, {
      id: change.id,
      version: change.version,
      isHealthy: true,
      unhealthySince: undefined,
      listeners: change.listeners,
    });
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
        const now = Date.now();
        const state = this.#states.get(key) ?? new DialState({ key, peerId: change.id, dialerIndex, listener, now });
        wanted.set(key, state);
        this.#states.set(key, state);
        if (this.#registry.byKey(key) !== undefined && state.status === "pending") state.established(Date.now());
        if (state.listener.address !== listener.address) {
          state.listener = listener;
          this.#registry.byKey(key)?.close(new Error("the listener's address changed"));
        }
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
    known.unhealthySince ??= Date.now();
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
    const now = Date.now();
    for (const peer of this.#peers.values()) {
      const gone = peer.unhealthySince !== undefined && now - peer.unhealthySince > FORGET_AFTER_MS;
      if (gone && !this.links().some((link) => link.peerId === peer.id)) this.#peerRemoved(peer.id);
    }
    for (const state of this.#states.values()) {
      // Repairs a state that believes in a link which is not there.
      if (state.status === "established" && this.#registry.byKey(state.key) === undefined) this.#linkFailed(state, now);
    }
    for (const link of this.links()) {
      link.checkAnswers(now);
      if (link.connectionsChanged() && link.isDialed) this.#o.reports.connectionsChanged(link);
      this.#refill(link);
    }
    this.#dialDue();
  }

  #dialDue(): void {
    if (this.#stop.signal.aborted) return;
    for (const state of this.#states.values()) {
      if (!state.isDue(Date.now())) continue;
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
          ...(dialer.localAddress === undefined ? {} : { localAddress: dialer.localAddress }),
          limits: channelLimits(dialer.options, CHANNEL_QUEUE),
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
        state.moved(Date.now());
        this.#dialDue();
      } else if (this.#registry.register(link) || this.#registry.byKey(state.key) !== undefined)
        state.established(Date.now());
      else this.#failed(state, "dialFailed");
    } catch (error) {
      this.#failed(state, "dialFailed", error);
    }
  }

  #failed(state: DialState, how: "dialFailed" | "queueFailed", error?: unknown): void {
    if (this.#stop.signal.aborted) return;
    const backoff = this.#backoff(state);
    if (backoff === undefined) return;
    state.failed(how, backoff, Date.now(), Math.random());
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

  #added(link: Link, replaced: Link | undefined): void {
    const { forwarder, reports, heartbeats } = this.#o;
    forwarder.addLink(link);
    if (link.ackChannel !== undefined) link.ackChannel.onFrame = link.channel.onFrame;
    let measured = false;
    link.channel.enableHeartbeats({
      sendIntervalMs: heartbeats.sendInterval,
      checkIntervalMs: heartbeats.checkInterval,
      closeUnresponsiveMs: heartbeats.closeUnresponsiveTimeout,
      onLatency: (ns) => {
        link.answered(Number(ns));
        if (!measured) reports.measured(link);
        measured = true;
      },
    });
    this.#log.info(
      { linkId: link.id, peerId: link.peerId, iteration: link.iteration, dialed: link.isDialed, form: link.form },
      "link established",
    );
    const state = this.#states.get(link.key);
    if (state !== undefined && state.status !== "dialing") state.established(Date.now());
    if (link.isDialed) reports.established(link);
    if (replaced !== undefined && replaced.id !== link.id) reports.duplicate(replaced);
    this.#refill(link);
  }

  #removed(link: Link, wasCurrent: boolean, reason: Error | undefined): void {
    this.#o.forwarder.removeLink(link.id, link.channel);
    if (this.#stop.signal.aborted) return;
    this.#log.info(
      { linkId: link.id, peerId: link.peerId, iteration: link.iteration, reason: reason?.message, wasCurrent },
      "link closed",
    );
    if (!wasCurrent) return;
    this.#o.reports.failed(link);
    const state = this.#states.get(link.key);
    if (state !== undefined) this.#linkFailed(state, Date.now());
    this.#dialDue();
  }

  #linkFailed(state: DialState, now: number): void {
    const backoff = this.#backoff(state);
    if (backoff !== undefined) state.linkFailed(now, backoff);
  }

  #backoff(state: DialState): Backoff | undefined {
    const dialer = this.#o.dialers[state.dialerIndex];
    const healthy = this.#peers.get(state.peerId)?.isHealthy === true;
    return healthy ? dialer?.healthyDialBackoff : dialer?.unhealthyDialBackoff;
  }

  /** Dials the connections that a grouped link lacks, one after the other, as long as it lacks any. */
  #refill(link: Link): void {
    const state = this.#states.get(link.key);
    const dialer = state === undefined ? undefined : this.#o.dialers[state.dialerIndex];
    if (!link.isDialed || link.form !== "grouped" || dialer === undefined || this.#refilling.has(link)) return;
    const missing = (): string | undefined => {
      if (link.isClosed || this.#stop.signal.aborted) return undefined;
      if (link.count(LinkUnderlay.Default) < dialer.maxDefaultConnections) return LinkUnderlay.Default;
      return link.count(LinkUnderlay.Ack) < dialer.maxAckConnections ? LinkUnderlay.Ack : undefined;
    };
    if (missing() === undefined) return;
    this.#refilling.add(link);
    void this.#fill(link, missing, dialer).finally(() => this.#refilling.delete(link));
  }

  async #fill(link: Link, missing: () => string | undefined, dialer: ResolvedDialer): Promise<void> {
    if (!this.#started.has(link)) await pause(dialer.startupDelay, this.#stop.signal);
    this.#started.add(link);
    for (let failures = 0, type = missing(); type !== undefined; type = missing()) {
      try {
        await dialUnderlay(link.channel, {
          type,
          timeoutMs: dialer.options.connectTimeoutMs || 15_000,
          signal: this.#stop.signal,
        });
        failures = 0;
      } catch (error) {
        failures++;
        const reason = error instanceof Error ? error.message : String(error);
        if (link.isClosed) return;
        this.#log.info({ linkId: link.id, underlay: type, failures, reason }, "a further connection of a link failed");
        await pause(Math.min(2000 * failures, 60_000), this.#stop.signal);
      }
    }
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    timer.unref();
    signal.addEventListener("abort", finish, { once: true });
    if (signal.aborted) finish();
  });
}
