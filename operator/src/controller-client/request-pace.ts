import { pause } from "@sallyport/async";

/** Times are milliseconds of this clock. */
const now = (): number => performance.now();

/**
 * When the next request to a network may go out: so many a second, and none while its controller asks to be left alone. Shared by
 * everything that talks to the network.
 */
export class RequestPace {
  readonly #intervalMs: number;
  readonly #burstMs: number;
  /** When the next request would go out if requests were spread evenly. */
  #next = 0;
  #pausedUntil = 0;

  /** As many as `perSecond` may go out at once after a silence. */
  constructor(perSecond: number) {
    this.#intervalMs = 1000 / perSecond;
    this.#burstMs = 1000 - this.#intervalMs;
  }

  /** Takes the next turn and waits for it. @throws the signal's reason */
  async turn(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const at = now();
    this.#next = Math.max(this.#next, at) + this.#intervalMs;
    await wait(this.#next - this.#intervalMs - this.#burstMs - at, signal);
    // The pause may have begun, or grown, meanwhile.
    while (this.pausedMs > 0) await wait(this.pausedMs, signal);
  }

  /** No request for so long; a longer pause stays. */
  pause(delayMs: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, now() + delayMs);
  }

  /** How much of the pause is left. */
  get pausedMs(): number {
    return Math.max(0, this.#pausedUntil - now());
  }
}

async function wait(delayMs: number, signal: AbortSignal): Promise<void> {
  if (delayMs <= 0) return;
  await pause(delayMs, signal);
  signal.throwIfAborted();
}
