import { pause } from "@sallyport/async";
import type { FabricOptions } from "../options.ts";
import { isPassing } from "../ports.ts";
import { WaitingDials } from "./waiting-dials.ts";

/** How often the model is asked again. Those who ask at once share a read of the change log. */
const ASK_AGAIN_MS = 200;

/**
 * Has dials wait for the end of an outage of the database, so that a short one (a failover) fails none. Nothing is decided from older memory meanwhile: another
 * controller may have reached the database, and taken the right away. Source: docs/protocol/fabric.md, "Outages".
 */
export class StoreWait {
  readonly #maxWaitMs: number;
  readonly #waiting = new WaitingDials();

  constructor({ returnWaitMs, routeTimeoutMs }: Pick<FabricOptions, "returnWaitMs" | "routeTimeoutMs">) {
    this.#maxWaitMs = Math.min(returnWaitMs, routeTimeoutMs / 2);
  }

  /** The answer of the model, which is asked again while its failure is one that passes. @throws what the last try throws */
  async ask<T>(routerId: string, question: () => Promise<T>): Promise<T> {
    const until = performance.now() + this.#maxWaitMs;
    let isWaiting = false;
    try {
      for (;;) {
        try {
          return await question();
        } catch (error) {
          if (!isPassing(error) || performance.now() + ASK_AGAIN_MS > until) throw error;
          if (!isWaiting && !this.#waiting.begin(routerId)) throw error;
          isWaiting = true;
          await pause(ASK_AGAIN_MS);
        }
      }
    } finally {
      if (isWaiting) this.#waiting.end(routerId);
    }
  }
}
