/** `ctrl.rateLimiter`. */
export interface WindowSettings {
  readonly enabled: boolean;
  readonly minSize: number;
  readonly maxSize: number;
  /** Share of the requests that must succeed for the window to grow. */
  readonly successThreshold: number;
  readonly increaseFactor: number;
  readonly decreaseFactor: number;
  /** So many successes, or failures, are counted before the window is changed. */
  readonly increaseCheckInterval: number;
  readonly decreaseCheckInterval: number;
}

/** What became of a request: `busy` and `lost` speak for fewer at a time. */
export type WindowOutcome = "success" | "busy" | "lost";

/**
 * How many requests may be on their way to the controllers at a time: fewer when they are busy or silent, more again when
 * they keep up (docs/protocol/control.md, "Terminators").
 */
export class AdaptiveWindow {
  readonly #o: WindowSettings;
  /** Called with how long a request took once it was let in, in milliseconds. */
  onAnswered: ((ms: number) => void) | undefined;
  readonly #waiting: (() => void)[] = [];
  #size: number;
  #inFlight = 0;
  #successes = 0;
  #failures = 0;
  #closed = false;

  constructor(settings: WindowSettings) {
    this.#o = settings;
    this.#size = settings.enabled ? settings.maxSize : Number.POSITIVE_INFINITY;
  }

  /** Requests that may be on their way now. */
  get size(): number {
    return Math.floor(this.#size);
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Waits for a place in the window; the function gives it back, once, and says what became of the request. */
  async enter(): Promise<(outcome: WindowOutcome) => void> {
    // A request that waited was counted when it was let in.
    if (this.#inFlight >= this.size && !this.#closed) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#inFlight++;
    const started = performance.now();
    let isOver = false;
    return (outcome) => {
      if (isOver) return;
      isOver = true;
      this.#inFlight--;
      this.onAnswered?.(performance.now() - started);
      this.#count(outcome);
      this.#admit();
    };
  }

  /** Lets all waiting requests go. */
  close(): void {
    this.#closed = true;
    for (const go of this.#waiting.splice(0)) this.#letIn(go);
  }

  #letIn(go: () => void): void {
    this.#inFlight++;
    go();
  }

  #admit(): void {
    let room = this.size - this.#inFlight;
    while (room-- > 0) {
      const go = this.#waiting.shift();
      if (go === undefined) return;
      this.#letIn(go);
    }
  }

  #count(outcome: WindowOutcome): void {
    const { enabled, minSize, maxSize, successThreshold } = this.#o;
    if (!enabled) return;
    if (outcome === "success") this.#successes++;
    else this.#failures++;
    const total = this.#successes + this.#failures;
    if (this.#failures >= this.#o.decreaseCheckInterval) {
      this.#size = Math.max(minSize, this.#size * this.#o.decreaseFactor);
      this.#restart();
    } else if (this.#successes >= this.#o.increaseCheckInterval && this.#successes / total >= successThreshold) {
      // A small window must grow by a whole place to grow at all.
      this.#size = Math.min(maxSize, Math.max(this.#size * this.#o.increaseFactor, Math.floor(this.#size) + 1));
      this.#restart();
    }
  }

  #restart(): void {
    this.#successes = 0;
    this.#failures = 0;
  }
}
