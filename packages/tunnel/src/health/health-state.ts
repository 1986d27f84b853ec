import type { PrecedenceName } from "@sallyport/wire";
import type { HealthAction, HealthEffect } from "../config/health-config.ts";

/** How a terminator is offered. */
export interface Offer {
  readonly cost: number;
  readonly precedence: PrecedenceName;
}

const MAX_COST = 65_535;
const ROUND_TO_MS = 100;

/** The results of one check in a row, and which actions they call for. */
export class CheckHistory {
  #passing = true;
  #count = 0;
  #since: number | undefined;

  /** Takes a result at a time in milliseconds. @returns those of `actions` that apply now */
  add(passed: boolean, now: number, actions: readonly HealthAction[]): HealthAction[] {
    const isChange = passed !== this.#passing;
    if (isChange || this.#since === undefined) {
      this.#count = 0;
      this.#since = now;
    }
    this.#passing = passed;
    this.#count++;
    const lasted = Math.round((now - this.#since) / ROUND_TO_MS) * ROUND_TO_MS;
    return actions.filter(
      ({ trigger, consecutiveEvents, durationMs }) =>
        (trigger === "change" ? isChange : (trigger === "pass") === passed) &&
        this.#count >= consecutiveEvents &&
        lasted >= durationMs,
    );
  }
}

/** What an effect makes of an offer. `send event` changes nothing. */
export function applyEffect(offer: Offer, baseline: Offer, effect: HealthEffect): Offer {
  switch (effect.kind) {
    case "mark healthy":
      return { ...offer, precedence: baseline.precedence };
    case "mark unhealthy":
      return { ...offer, precedence: "failed" };
    case "increase cost":
      // A failed terminator is chosen last anyway; its cost is for the time after.
      return offer.precedence === "failed" ? offer : { ...offer, cost: Math.min(MAX_COST, offer.cost + effect.by) };
    case "decrease cost":
      return { ...offer, cost: Math.max(baseline.cost, offer.cost - effect.by) };
    case "send event":
      return offer;
  }
}
