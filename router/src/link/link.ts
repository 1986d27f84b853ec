import { type Channel, isAtLeast } from "@sallyport/wire";
import type { LinkPort } from "../forwarder/link-destination.ts";
import { Histogram } from "../metrics/histogram.ts";

/**
 * Names what a link connects: two links with the same key are duplicates (docs/protocol/links.md, "Link key"). Empty
 * bindings are written as `default`.
 */
export function linkKey(o: {
  dialerBinding: string;
  protocol: string;
  peerId: string;
  listenerBinding: string;
}): string {
  return `${o.dialerBinding || "default"}->${o.protocol}:${o.peerId}->${o.listenerBinding || "default"}`;
}

/** How the connections of a link belong together. */
export type LinkForm = "grouped" | "split" | "single";

/**
 * The form in which a router of this version is dialled: grouped since 1.6.6 and for development builds (0.0.0), before
 * that and for texts that are no version a split pair or, with `split: false`, a single connection
 * (docs/protocol/links.md, "Forms").
 */
export function linkForm(version: string, split: boolean): LinkForm {
  return isAtLeast(version, [1, 6, 6]) ? "grouped" : split ? "split" : "single";
}

/** Latency reported for a link that does not answer, in nanoseconds: far above any real one. */
const UNRESPONSIVE_LATENCY_NS = 8_888_888_888_888;
const UNRESPONSIVE_AFTER_MS = 30_000;
const MAX_PROBES = 2;
const NS_PER_MS = 1e6;

type LinkFacts = Pick<
  Link,
  "id" | "key" | "peerId" | "peerVersion" | "iteration" | "form" | "protocol" | "dialAddress" | "isDialed" | "channel"
> & { readonly ackChannel?: Channel | undefined };

/** An established link to another router: one channel, or two when it is split. */
export class Link implements LinkPort {
  readonly id: string;
  readonly key: string;
  readonly peerId: string;
  readonly peerVersion: string;
  readonly iteration: number;
  readonly form: LinkForm;
  readonly protocol: string;
  /** Address of the dialled listener, `tls:host:port`. */
  readonly dialAddress: string;
  readonly isDialed: boolean;
  readonly channel: Channel;
  /** Second half of a split link. */
  readonly ackChannel: Channel | undefined;
  readonly latency = new Histogram();
  /** Nanoseconds that a frame waits here before the system takes it. */
  readonly queueTime = new Histogram();
  /** How many duplicates it has turned away. */
  duplicatesRejected = 0;
  /** Counts changes of its connections. */
  stateIteration = 0;
  /** By `performance.now()`: no change of the system's time makes a link look silent. */
  #answeredAt = performance.now();
  #isSilent = false;
  #isProven = false;
  #whenProven: (() => void)[] = [];
  #probes = 0;
  #underlays = "";

  constructor(facts: LinkFacts) {
    this.id = facts.id;
    this.key = facts.key;
    this.peerId = facts.peerId;
    this.peerVersion = facts.peerVersion;
    this.iteration = facts.iteration;
    this.form = facts.form;
    this.protocol = facts.protocol;
    this.dialAddress = facts.dialAddress;
    this.isDialed = facts.isDialed;
    this.channel = facts.channel;
    this.ackChannel = facts.ackChannel;
    this.#underlays = this.#fingerprint();
  }

  get isClosed(): boolean {
    return this.channel.isClosed;
  }

  /** Calls `closed` once, when its main channel is closed; the other half goes with it, and the other way round. */
  onClose(closed: (reason?: Error) => void): void {
    this.channel.onClose((reason) => {
      this.ackChannel?.close();
      closed(reason);
    });
    this.ackChannel?.onClose(() => this.channel.close(new Error("the other half of the link is closed")));
  }

  close(reason?: Error): void {
    this.channel.close(reason);
    this.ackChannel?.close(reason);
  }

  /**
   * Calls `proven` when the other end has answered, at once if it has. OpenZiti's listeners may grant a link and close it
   * once they have verified the dialer.
   */
  onProven(proven: () => void): void {
    if (this.#isProven) proven();
    else this.#whenProven.push(proven);
  }

  /** A heartbeat was answered after so many nanoseconds. */
  answered(ns: number): void {
    this.#answeredAt = performance.now();
    if (this.#isSilent) this.latency.clear();
    this.#isSilent = false;
    this.latency.update(ns);
    if (this.#isProven) return;
    this.#isProven = true;
    for (const proven of this.#whenProven.splice(0)) proven();
  }

  /** Marks a link that has long not answered, so that no new path uses it; true when this call marks it. `now`: `performance.now()`. */
  checkAnswers(now: number): boolean {
    if (this.#isSilent || now - this.#answeredAt < UNRESPONSIVE_AFTER_MS) return false;
    this.#isSilent = true;
    this.latency.clear();
    this.latency.update(UNRESPONSIVE_LATENCY_NS);
    return true;
  }

  /** Starts to measure how long a frame written now would wait. At most two measurements run at a time. */
  probeQueue(): void {
    if (this.channel.isClosed || this.#probes >= MAX_PROBES) return;
    const since = performance.now();
    this.#probes++;
    this.channel.underlayFor(0).output.whenTaken(() => {
      this.#probes--;
      this.queueTime.update((performance.now() - since) * NS_PER_MS);
    });
  }

  /** What the controllers compute its cost from, by name. */
  histograms(): (readonly [name: string, histogram: Histogram])[] {
    return [
      [`link.${this.id}.latency`, this.latency],
      [`link.${this.id}.queue_time`, this.queueTime],
    ];
  }

  /** True when connections were added or lost since the last call. */
  connectionsChanged(): boolean {
    const now = this.#fingerprint();
    if (now === this.#underlays) return false;
    this.#underlays = now;
    this.stateIteration++;
    return true;
  }

  /** The connections as the controllers are told: `<network>:<ip>:<port>` of both ends. */
  connections(): { type: string; localAddr: string; remoteAddr: string }[] {
    const halves =
      this.ackChannel === undefined
        ? this.channel.underlays.map((underlay) => [underlay.type === "" ? "single" : underlay.type, underlay] as const)
        : [
            ...this.channel.underlays.map((underlay) => ["payload", underlay] as const),
            ...this.ackChannel.underlays.map((underlay) => ["ack", underlay] as const),
          ];
    return halves.map(([type, { localAddress, remoteAddress }]) => ({
      type,
      localAddr: `tcp:${localAddress}`,
      remoteAddr: `tcp:${remoteAddress}`,
    }));
  }

  count(type: string): number {
    return this.channel.underlays.filter((underlay) => underlay.type === type && !underlay.isClosed).length;
  }

  #fingerprint(): string {
    return this.channel.underlays.map((underlay) => underlay.type).join();
  }
}
