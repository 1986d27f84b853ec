import { randomBase62Id } from "@sallyport/wire";

/** Waiting times of failed dials, in milliseconds. */
export interface DialBackoff {
  readonly minRetryInterval: number;
  readonly maxRetryInterval: number;
  readonly retryBackoffFactor: number;
}

/**
 * The next waiting time after one of `previous` (0: first failure): previous times the factor with a random part of up to
 * half, within the bounds. `random` is from 0 to 1.
 */
export function nextDelay(previous: number, backoff: DialBackoff, random: number): number {
  const factor = Math.max(1, backoff.retryBackoffFactor + random - 0.5);
  return Math.min(Math.max(previous * factor, backoff.minRetryInterval), backoff.maxRetryInterval);
}

/** Life of the wish for one link (docs/protocol/links.md, "Dialling"). */
export type DialStatus =
  | "pending"
  | "dialing"
  | "queueFailed"
  | "dialFailed"
  | "established"
  | "linkFailed"
  | "destRemoved";

/** A listener of another router, as a controller announced it. */
export interface PeerListener {
  readonly address: string;
  readonly protocol: string;
  readonly groups: readonly string[];
  readonly localBinding: string;
}

/**
 * The wish for one link to one peer: which address, how often it was tried and when it is tried next. Its link id stays
 * the same for all attempts; the iteration counts them.
 */
export class DialState {
  readonly linkId = randomBase62Id();
  readonly key: string;
  readonly peerId: string;
  readonly dialerIndex: number;
  listener: PeerListener;
  status: DialStatus = "pending";
  iteration = 0;
  connectedCount = 0;
  retryDelay = 0;
  /** Milliseconds of `performance.now()`, like every time here: retries do not depend on the system's clock. */
  nextDial: number;
  #establishedAt = 0;

  constructor(o: { key: string; peerId: string; dialerIndex: number; listener: PeerListener; now: number }) {
    this.key = o.key;
    this.peerId = o.peerId;
    this.dialerIndex = o.dialerIndex;
    this.listener = o.listener;
    this.nextDial = o.now;
  }

  isDue(now: number): boolean {
    const waits = this.status !== "dialing" && this.status !== "established" && this.status !== "destRemoved";
    return waits && now >= this.nextDial;
  }

  dialing(): void {
    this.status = "dialing";
    this.iteration++;
  }

  failed(how: "dialFailed" | "queueFailed", backoff: DialBackoff, now: number, random: number): void {
    if (this.status === "destRemoved") return;
    this.status = how;
    this.retryDelay = nextDelay(this.retryDelay, backoff, random);
    this.nextDial = now + this.retryDelay;
  }

  established(now: number): void {
    if (this.status === "destRemoved") return;
    this.status = "established";
    this.connectedCount++;
    this.retryDelay = 0;
    this.#establishedAt = now;
  }

  /** The link closed: the first try is at once, unless it closed as soon as it was made, as one does that is refused. */
  linkFailed(now: number, backoff: DialBackoff): void {
    if (this.status !== "established") return;
    this.status = "linkFailed";
    this.retryDelay = now - this.#establishedAt < backoff.minRetryInterval ? backoff.minRetryInterval : 0;
    this.nextDial = now + this.retryDelay;
  }

  /** The listener moved while it was dialled: the next attempt is at once. */
  moved(now: number): void {
    if (this.status !== "dialing") return;
    this.status = "pending";
    this.nextDial = now;
  }

  /** The peer is back: no more waiting. */
  hurry(now: number): void {
    if (this.status === "dialing" || this.status === "established") return;
    this.retryDelay = 0;
    this.nextDial = now;
  }
}

/** State of another router as a controller announced it. */
export interface PeerChange {
  readonly id: string;
  /** Set when healthy. */
  readonly version: string;
  readonly state: "healthy" | "unhealthy" | "removed";
  readonly listeners: readonly PeerListener[];
}

/** Another router that this one knows of. */
export interface KnownPeer {
  readonly id: string;
  version: string;
  isHealthy: boolean;
  /** By `performance.now()`. */
  unhealthySince: number | undefined;
  listeners: readonly PeerListener[];
}

/** An unhealthy peer without a link is forgotten after this long. */
export const FORGET_AFTER_MS = 48 * 3_600_000;

/** True when a dialer and a listener have a group in common; a listener without groups is in `default`. */
export function sharesGroup(dialer: readonly string[], listener: readonly string[]): boolean {
  const groups = listener.length === 0 ? ["default"] : listener;
  return groups.some((group) => dialer.includes(group));
}
