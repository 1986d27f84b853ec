import { Pool } from "@sallyport/async";
import {
  type Channel,
  ControlHello,
  ControlUnderlay,
  hasCapability,
  isAtLeast,
  type LineBounds,
  type Logger,
  type Outgoing,
  RouterCapability,
  type Underlay,
  type VersionInfo,
} from "@sallyport/wire";
import type { RouterRecord } from "../ports.ts";
import type { TimeShare } from "./time-share.ts";

/** A link listener of a router, as it tells other routers through the controller. */
export interface RouterListener {
  readonly address: string;
  readonly protocol: string;
  readonly costTags: readonly string[];
  readonly groups: readonly string[];
  readonly localBinding: string;
}

/** How far a router is with its API sessions; the names are those of the Management API. */
type SyncStatus =
  | "SYNC_NEW"
  | "SYNC_HELLO"
  | "SYNC_HELLO_WAIT"
  | "SYNC_IN_PROGRESS"
  | "SYNC_DONE"
  | "SYNC_DISCONNECTED"
  | "SYNC_ERROR";

/** Lines in a minute about what routers ask and report. */
export const ROUTER_LINES: LineBounds = { perReason: 10, perMessage: 300 };

/** Requests of one router that are worked on side by side, and that may wait. A circuit request takes as long as the hosting application. */
const MAX_AT_ONCE = 1_000;
const MAX_WAITING = 4_000;
/** Bytes of the requests of one router in a pool. One request is taken whatever its size. */
const MAX_BYTES = 64 * 1024 * 1024;
/** The first generation whose routers evaluate posture checks. */
const GENERATION_2 = [2, 0, 0] as const;
/** Everything that writes to the store keeps its order: a terminator's removal must not overtake its creation. */
const MAX_WRITES_WAITING = 10_000;

interface RouterConnectionParts {
  readonly record: RouterRecord;
  readonly channel: Channel;
  readonly version: VersionInfo;
  readonly listeners: readonly RouterListener[];
  readonly ctrlChanListeners?: Readonly<Record<string, readonly string[]>> | undefined;
  readonly connectedAt: Date;
  readonly maxQueuedBytes: number;
  readonly share: TimeShare;
  readonly log: Logger;
}

/** A router's live control channel and what the router has said on it. Ends with the channel; a reconnect makes a new one. */
export class RouterConnection {
  readonly id: string;
  readonly channel: Channel;
  readonly version: VersionInfo;
  /** Replaced when the router says that they have changed. */
  listeners: readonly RouterListener[];
  /** Where controllers could dial it; undefined: it does not say. */
  readonly ctrlChanListeners: Readonly<Record<string, readonly string[]>> | undefined;
  readonly connectedAt: Date;
  /** Bits of `RouterCapability`; absent: a router that announces none. */
  readonly capabilities: Buffer | undefined;
  /** The entity; replaced when it changes. */
  record: RouterRecord;
  syncStatus: SyncStatus = "SYNC_NEW";
  hostname = "";
  /** Protocol to URL, from the router's ClientHello. */
  supportedProtocols: Readonly<Record<string, string>> = {};
  /** Requests that build circuits or only look something up: side by side. */
  readonly parallelLane: Pool;
  /** Requests that change entities: one after the other. */
  readonly orderedLane: Pool;
  readonly log: Logger;
  /** Of the controller's time; the router's next connection goes on with it. */
  readonly share: TimeShare;
  /** Nothing is read until then, a time of `performance.now()`. */
  #pausedUntil = 0;
  #pause: NodeJS.Timeout | undefined;
  readonly #maxQueuedBytes: number;

  constructor(parts: RouterConnectionParts) {
    this.id = parts.record.id;
    this.record = parts.record;
    this.channel = parts.channel;
    this.version = parts.version;
    this.listeners = parts.listeners;
    this.ctrlChanListeners = parts.ctrlChanListeners;
    this.connectedAt = parts.connectedAt;
    this.capabilities = parts.channel.hello.headers.get(ControlHello.CapabilitiesV2);
    this.log = parts.log;
    this.#maxQueuedBytes = parts.maxQueuedBytes;
    this.share = parts.share;
    const onError = (err: unknown) =>
      this.log.error({ routerId: this.id, err }, "a request of a router failed; its handler has a defect");
    this.parallelLane = new Pool({ concurrency: MAX_AT_ONCE, capacity: MAX_WAITING, maxBytes: MAX_BYTES, onError });
    this.orderedLane = new Pool({ concurrency: 1, capacity: MAX_WRITES_WAITING, maxBytes: MAX_BYTES, onError });
    parts.channel.onClose(() => {
      this.parallelLane.close();
      this.orderedLane.close();
      clearTimeout(this.#pause);
      this.syncStatus = "SYNC_DISCONNECTED";
    });
  }

  can(capability: (typeof RouterCapability)[keyof typeof RouterCapability]): boolean {
    return hasCapability(this.capabilities, capability);
  }

  /** Does it evaluate the posture checks of identities with access tokens? OpenZiti's routers do since 2.0.0, and say so since 2.1. */
  get checksPosture(): boolean {
    if (this.can(RouterCapability.PostureChecks)) return true;
    return this.isOfGeneration2;
  }

  /** A router of OpenZiti 2.x; this project's announce some of the same, and are not. */
  get isOfGeneration2(): boolean {
    return this.can(RouterCapability.MultiChannel) && isAtLeast(this.version.version, GENERATION_2);
  }

  /**
   * The connection for what is said about a circuit that was requested at that time of `performance.now()`: the one for what is urgent, if there is one.
   * A connection that joined later is not for this circuit, so that none of its messages overtakes another.
   */
  wayOf(requestedAt: number): Underlay | undefined {
    return this.channel.underlays.find(
      ({ type, joinedAt }) => type === ControlUnderlay.High && joinedAt <= requestedAt,
    );
  }

  /**
   * Queues a message; false when the channel is closed. A router that does not read what it is sent is disconnected once too much waits for it: when it
   * comes back, the full synchronisation gives it everything it missed. `via`: see {@link RouterConnection.wayOf}.
   */
  send(out: Outgoing, via?: Underlay): boolean {
    if (this.channel.isClosed) return false;
    const { queuedBytes } = this.channel;
    if (queuedBytes > this.#maxQueuedBytes) {
      this.channel.close(new Error(`router ${this.id} leaves ${queuedBytes} bytes unread; its channel is closed`));
      return false;
    }
    this.channel.send(out, via);
    return true;
  }

  /** Works on a message now. A router that takes more than its share of the controller's time is read later. */
  atOnce(work: () => void): void {
    const before = cpuMs();
    try {
      work();
    } finally {
      const now = performance.now();
      const pauseMs = this.share.spent(cpuMs() - before, now);
      if (pauseMs > 0) this.#readLater(pauseMs, now);
    }
  }

  /** What was read already still arrives, and makes the pause longer. A connection that joins is paused with its first message. */
  #readLater(pauseMs: number, now: number): void {
    if (this.channel.isClosed) return;
    this.#pausedUntil = Math.max(this.#pausedUntil, now + pauseMs);
    for (const underlay of this.channel.underlays) underlay.pause();
    if (this.#pause !== undefined) return;
    this.log.warn(
      { routerId: this.id, pauseMs: Math.round(pauseMs) },
      "the router's messages take too much time; it is read later",
    );
    this.#awaitEnd(pauseMs);
  }

  #awaitEnd(ms: number): void {
    this.#pause = setTimeout(() => {
      const left = this.#pausedUntil - performance.now();
      if (left > 0) {
        this.#awaitEnd(left);
        return;
      }
      this.#pause = undefined;
      for (const underlay of this.channel.underlays) underlay.resume();
    }, ms);
  }

  /** Resolves when what was sent so far has been handed to the operating system, the channel closed, or the time is up. */
  async written(timeoutMs: number): Promise<void> {
    // The channel writes once per turn of the event loop; after it only a full channel still holds bytes back.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.channel.isClosed || !this.channel.isFull) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, timeoutMs);
    this.channel.onDrain(resolve);
    await promise;
    clearTimeout(timer);
  }

  /** Resolves when nothing is worked on any more. To be called after the channel was closed. */
  async idle(): Promise<void> {
    await Promise.all([this.parallelLane.idle(), this.orderedLane.idle()]);
  }
}

/** Of this thread, where Node tells it: a busy machine is no fault of the router. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage();
  return (user + system) / 1000;
}

/** Run-time state of a connected router, as the Management API shows it. */
export interface RouterState {
  readonly id: string;
  readonly isOnline: true;
  readonly connectedSince: Date;
  readonly syncStatus: SyncStatus;
  readonly hostname: string;
  /** Protocol to URL, as SDKs connect. */
  readonly supportedProtocols: Readonly<Record<string, string>>;
  readonly versionInfo: VersionInfo;
  /** Bits of `RouterCapability`; absent: it announces none. */
  readonly capabilities?: Buffer | undefined;
  /** It evaluates the posture checks of identities with access tokens. */
  readonly checksPosture: boolean;
  /** Where other routers dial it. */
  readonly linkListeners: readonly { readonly address: string; readonly protocol: string }[];
  /** `ip:port` the router connected from. */
  readonly address: string;
}

export function routerState(router: RouterConnection): RouterState {
  const { version, revision, buildDate, os, arch } = router.version;
  return {
    id: router.id,
    isOnline: true,
    connectedSince: router.connectedAt,
    syncStatus: router.syncStatus,
    hostname: router.hostname,
    supportedProtocols: router.supportedProtocols,
    versionInfo: { version, revision, buildDate, os, arch },
    capabilities: router.capabilities,
    checksPosture: router.checksPosture,
    linkListeners: router.listeners.map(({ address, protocol }) => ({ address, protocol })),
    address: router.channel.peer.address,
  };
}
