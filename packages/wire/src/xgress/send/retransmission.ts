import type { FlowOptions } from "../options.ts";

/** The measured way there and back, and how long a payload waits for its acknowledgement before it is sent again. */
export class RoundTrip {
  readonly #options: FlowOptions;
  #scale: number;
  #thresholdMs: number;
  #ms = 0;

  constructor(options: FlowOptions) {
    this.#options = options;
    this.#scale = options.retxScale;
    this.#thresholdMs = this.#capped(options.retxStartMs);
  }

  /** Milliseconds, smoothed; 0 when none was measured. */
  get ms(): number {
    return this.#ms;
  }

  /** Milliseconds after which a payload is sent again. */
  get thresholdMs(): number {
    return this.#thresholdMs;
  }

  /** By how much the threshold is longer than the round trip. */
  get scale(): number {
    return this.#scale;
  }

  measure(sample: number): void {
    let ms = sample;
    if (this.#ms > 0) {
      const { maxRttScale } = this.#options;
      if (maxRttScale > 0) ms = Math.min(ms, this.#ms * Math.max(maxRttScale, 2));
      ms = Math.trunc((ms + this.#ms) / 2);
    }
    this.#ms = ms;
    this.#thresholdMs = this.#capped(Math.floor(ms * this.#scale) + this.#options.retxAddMs);
  }

  /** Much was sent again for nothing. */
  waitLonger(): void {
    this.#scale += 0.2;
  }

  waitLess(): void {
    this.#scale = Math.max(this.#scale - 0.01, this.#options.retxScale);
  }

  #capped(threshold: number): number {
    const floored = Math.max(threshold, this.#options.retxFloorMs);
    return this.#options.retxMaxMs > 0 ? Math.min(floored, this.#options.retxMaxMs) : floored;
  }
}

/**
 * What acknowledgements tell of those that did not come: late is not lost. A busy machine holds up a whole window, and
 * all of it sent twice makes it only busier. But what has no answer while something that was sent after it has one, was
 * lost, or its acknowledgement was (docs/protocol/xgress.md "Sender").
 */
export class LossEvidence {
  #sendings = 0;
  #answered = 0;
  #maybe = 0;
  #maybeAt = 0;

  /** The number of one more sending. */
  next(): number {
    return ++this.#sendings;
  }

  /** The only sending of a payload was answered. */
  answered(sending: number): void {
    this.#answered = Math.max(this.#answered, sending);
    this.#maybe = 0;
  }

  /**
   * A payload that was sent more than once, last as `sending`, was acknowledged. It is unknown for which sending:
   * if it was the first one, the others are acknowledged, too, any moment now.
   */
  maybeAnswered(sending: number, now: number): void {
    this.#maybe = Math.max(this.#maybe, sending);
    this.#maybeAt = now;
  }

  /** That moment was `ms` long. */
  settle(now: number, ms: number): void {
    if (this.#maybe > 0 && now - this.#maybeAt > ms) this.answered(this.#maybe);
  }

  /** Whether something was answered that was sent later than this. */
  isOvertaken(sending: number): boolean {
    return sending < this.#answered;
  }
}
