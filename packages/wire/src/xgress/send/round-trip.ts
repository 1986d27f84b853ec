import type { FlowOptions } from "../flow-options.ts";

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
