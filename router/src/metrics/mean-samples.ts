import { Histogram } from "./histogram.ts";

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
