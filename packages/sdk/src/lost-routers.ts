import { jittered } from "@sallyport/async";
import type { RouterAddress } from "./router-address.ts";

/** Pauses between attempts: at first `firstMs`, later a share of the time that the router is away. */
const pace = { firstMs: 1_000, share: 0.1, longestMs: 10_000, givenUpAfterMs: 5 * 60_000 };
/** Minimum time between two searches for routers that do not come back. */
const SEARCH_INTERVAL_MS = 3_000;
/** So long after a router went or came back, what went with it (hosts, links) may be on its way to where it will be. */
const MOTION_MS = 30_000;

export interface LostRoutersOptions {
  /** Connects to a router. */
  readonly connect: (router: RouterAddress) => Promise<unknown>;
  /** A router was not there again: it may have moved. */
  readonly onMissing: () => void;
}

interface Lost {
  readonly router: RouterAddress;
  readonly since: number;
  timer: NodeJS.Timeout | undefined;
}

/**
 * Routers that were connected and are not any more. Most of them restart and are back within seconds; they are
 * connected again by then, so that the next one can go.
 */
export class LostRouters {
  readonly #o: LostRoutersOptions;
  readonly #lost = new Map<string, Lost>();
  #movedAt = Number.NEGATIVE_INFINITY;
  #searchedAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(options: LostRoutersOptions) {
    this.#o = options;
  }

  /** A router went or came back a moment ago: what cannot be reached now may be reached soon. */
  get isInMotion(): boolean {
    return performance.now() - this.#movedAt < MOTION_MS;
  }

  /** A router is about to go. */
  leaves(): void {
    this.#movedAt = performance.now();
  }

  /** The connection to a router ended. */
  lost(router: RouterAddress): void {
    this.leaves();
    this.#schedule(router, performance.now());
  }

  /** A router ended a connection right away. @returns whether it is one that was lost before, and is tried again */
  refused(router: RouterAddress): boolean {
    const known = this.#lost.get(router.address);
    if (known === undefined) return false;
    this.#schedule(router, known.since);
    return true;
  }

  /** A router is connected again. */
  connected(router: RouterAddress): void {
    const known = this.#lost.get(router.address);
    if (known === undefined) return;
    // Kept: it may not be up to it yet, and end the connection again.
    clearTimeout(known.timer);
    known.timer = undefined;
    this.#movedAt = performance.now();
  }

  /** These routers are online now, at these addresses: what is elsewhere by now is not waited for where it was. */
  located(routers: readonly RouterAddress[]): void {
    const addresses = new Set(routers.map(({ address }) => address));
    const names = new Set(routers.map(({ name }) => name));
    for (const { router } of [...this.#lost.values()]) {
      if (names.has(router.name) && !addresses.has(router.address)) this.#forget(router);
    }
  }

  clear(): void {
    for (const { router } of [...this.#lost.values()]) this.#forget(router);
  }

  close(): void {
    this.#isClosed = true;
    this.clear();
  }

  #schedule(router: RouterAddress, since: number): void {
    this.#forget(router);
    const awayMs = performance.now() - since;
    if (this.#isClosed || awayMs > pace.givenUpAfterMs) return;
    const delayMs = jittered(Math.min(Math.max(awayMs * pace.share, pace.firstMs), pace.longestMs), [0.75, 1.25]);
    const timer = setTimeout(() => void this.#try(router, since), delayMs);
    timer.unref();
    this.#lost.set(router.address, { router, since, timer });
  }

  async #try(router: RouterAddress, since: number): Promise<void> {
    try {
      await this.#o.connect(router);
    } catch {
      // A dial that needs the router reports the error. Meanwhile another call may have scheduled it.
      if (this.#lost.get(router.address)?.since !== since) return;
      this.#schedule(router, since);
      if (performance.now() - this.#searchedAt < SEARCH_INTERVAL_MS) return;
      this.#searchedAt = performance.now();
      this.#o.onMissing();
    }
  }

  #forget(router: RouterAddress): void {
    clearTimeout(this.#lost.get(router.address)?.timer);
    this.#lost.delete(router.address);
  }
}
