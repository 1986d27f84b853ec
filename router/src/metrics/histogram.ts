/** The quantiles of a report, in the order of its fields 7 to 12. */
const QUANTILES = [0.5, 0.75, 0.95, 0.99, 0.999, 0.9999] as const;
const SAMPLES = 128;

/** A sliding window over the last 128 samples; `count` counts them all. */
export class Histogram {
  readonly #window = new Float64Array(SAMPLES);
  #count = 0;
  #next = 0;
  #held = 0;

  /** @param times how many events the sample stands for: it is their mean */
  update(value: number, times = 1): void {
    this.#window[this.#next] = value;
    this.#next = (this.#next + 1) % SAMPLES;
    this.#count += times;
    this.#held = Math.min(this.#held + 1, SAMPLES);
  }

  clear(): void {
    this.#count = 0;
    this.#next = 0;
    this.#held = 0;
  }

  get count(): number {
    return this.#count;
  }

  get mean(): number {
    return this.snapshot().mean;
  }

  /** Percentiles are interpolated. */
  snapshot() {
    const sorted = this.#window.slice(0, this.#held).sort();
    const n = sorted.length;
    if (n === 0) {
      return { count: 0, max: 0, mean: 0, min: 0, stdDev: 0, variance: 0, percentiles: QUANTILES.map(() => 0) };
    }
    const mean = sorted.reduce((sum, value) => sum + value, 0) / n;
    const variance = sorted.reduce((sum, value) => sum + (value - mean) ** 2, 0) / n;
    return {
      count: this.#count,
      max: sorted[n - 1] ?? 0,
      mean,
      min: sorted[0] ?? 0,
      stdDev: Math.sqrt(variance),
      variance,
      percentiles: QUANTILES.map((q) => quantile(sorted, q)),
    };
  }
}

function quantile(sorted: Float64Array, q: number): number {
  const at = q * (sorted.length + 1);
  const below = sorted[Math.max(0, Math.min(sorted.length, Math.floor(at)) - 1)] ?? 0;
  const above = sorted[Math.min(sorted.length - 1, Math.max(0, Math.floor(at)))] ?? 0;
  return below + (at - Math.floor(at)) * (above - below);
}

/**
 * A histogram of what is only known as a count and a sum: each look adds the mean of what came since the last one. So the
 * hot path adds two numbers, and single outliers between two looks are not seen.
 */
export class MeanSamples {
  readonly histogram = new Histogram();
  #count = 0;
  #sum = 0;

  look(count: number, sum: number): void {
    const more = count - this.#count;
    if (more > 0) this.histogram.update((sum - this.#sum) / more, more);
    this.#count = count;
    this.#sum = sum;
  }
}
