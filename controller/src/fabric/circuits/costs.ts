import type { PrecedenceName } from "@sallyport/wire";

/**
 * What terminators cost. Terminators are compared by static cost + dynamic cost + path cost, moved into the band of their precedence: no cost, however high,
 * lifts one over the precedence of another. Source: docs/protocol/fabric.md, "Costs".
 */

/** Width of a precedence band; the bands follow one another: required, default, failed. */
const BAND = 262_140;
const BAND_BASE: Readonly<Record<PrecedenceName, number>> = { required: 0, default: BAND, failed: 2 * BAND };

export const MAX_STATIC_COST = 65_535;
const MAX_DYNAMIC_COST = 65_535;
const MAX_PATH_COST = 2 ** 20;

const COST_PER_CIRCUIT = 2;
const COST_PER_FAILURE = 20;
const CREDIT_PER_SUCCESS = 2;
const MIN_CREDIT = 10;
const CREDIT_PERIOD_MS = 5 * 60_000;

/** Total cost of a terminator inside its precedence band; a value over the top of the band is cut to the top. */
export function biasedCost(of: {
  precedence: PrecedenceName;
  staticCost: number;
  dynamicCost: number;
  pathCost: number;
}): number {
  const cost = of.staticCost + of.dynamicCost + Math.min(of.pathCost, MAX_PATH_COST);
  return BAND_BASE[of.precedence] + Math.min(cost, BAND - 1);
}

/** The part of a biased cost above the base of its band. */
export function costWithinBand(precedence: PrecedenceName, biased: number): number {
  return biased - BAND_BASE[precedence];
}

/** Order of precedences: smaller is better. */
export function precedenceRank(precedence: PrecedenceName): number {
  return BAND_BASE[precedence];
}

interface TerminatorLoad {
  circuits: number;
  failureCost: number;
  lastFailureAt: number;
}

/**
 * The dynamic cost of terminators: 2 for each open circuit, 20 for each failed dial. Failures are forgiven by successful dials (2 each) and by
 * {@link DynamicCosts.credit} over time. Kept in memory only. Times are milliseconds of any one clock.
 */
export class DynamicCosts {
  readonly #loads = new Map<string, TerminatorLoad>();

  /** Dynamic cost of a terminator, 0…65535. */
  of(terminatorId: string): number {
    const load = this.#loads.get(terminatorId);
    return load === undefined ? 0 : Math.min(load.circuits * COST_PER_CIRCUIT + load.failureCost, MAX_DYNAMIC_COST);
  }

  /** Terminators that cost something, for people who look into the controller. */
  all(): { terminatorId: string; circuitCount: number; failureCost: number; currentCost: number }[] {
    return [...this.#loads].map(([terminatorId, load]) => ({
      terminatorId,
      circuitCount: load.circuits,
      failureCost: load.failureCost,
      currentCost: this.of(terminatorId),
    }));
  }

  /** A dial succeeded and its circuit is open. */
  circuitOpened(terminatorId: string): void {
    const load = this.#load(terminatorId);
    load.circuits += 1;
    load.failureCost = Math.max(0, load.failureCost - CREDIT_PER_SUCCESS);
  }

  circuitClosed(terminatorId: string): void {
    const load = this.#loads.get(terminatorId);
    if (load === undefined) return;
    load.circuits = Math.max(0, load.circuits - 1);
    this.#forgetIfFree(terminatorId, load);
  }

  dialFailed(terminatorId: string, now: number): void {
    const load = this.#load(terminatorId);
    load.failureCost = Math.min(load.failureCost + COST_PER_FAILURE, MAX_DYNAMIC_COST);
    load.lastFailureAt = now;
  }

  /** To be called every minute: takes max(10, 2^n) off each failure cost, n = whole 5-minute periods since the last failure. */
  credit(now: number): void {
    for (const [id, load] of this.#loads) {
      const periods = Math.max(0, Math.floor((now - load.lastFailureAt) / CREDIT_PERIOD_MS));
      load.failureCost = Math.max(0, load.failureCost - Math.max(MIN_CREDIT, 2 ** periods));
      this.#forgetIfFree(id, load);
    }
  }

  forget(terminatorId: string): void {
    this.#loads.delete(terminatorId);
  }

  #load(terminatorId: string): TerminatorLoad {
    return this.#loads.getOrInsertComputed(terminatorId, () => ({ circuits: 0, failureCost: 0, lastFailureAt: 0 }));
  }

  #forgetIfFree(terminatorId: string, load: TerminatorLoad): void {
    if (load.circuits === 0 && load.failureCost === 0) this.#loads.delete(terminatorId);
  }
}
