import type { CheckResult, HealthCheck } from "./health-check.ts";

/** All checks together: healthy when every one of them is. */
export class RouterHealth {
  readonly #checks: readonly HealthCheck[];

  constructor(checks: readonly HealthCheck[]) {
    this.#checks = checks;
  }

  get isHealthy(): boolean {
    return this.#checks.every((check) => check.isHealthy);
  }

  results(): CheckResult[] {
    return this.#checks.map((check) => check.result());
  }

  /** The document of the `health-checks` API; `short` leaves id and state of each check. */
  document(short: boolean): string {
    const checks = this.results().map((result) => (short ? { id: result.id, healthy: result.healthy } : result));
    const { isHealthy } = this;
    return `${JSON.stringify({ data: { checks: checks.map(sorted), healthy: isHealthy }, meta: {} }, undefined, 4)}\n`;
  }

  stop(): void {
    for (const check of this.#checks) check.stop();
  }
}

/** The keys of a check in alphabetical order; what is inside of them keeps its own. */
function sorted(check: object): object {
  return Object.fromEntries(Object.entries(check).sort(([a], [b]) => (a < b ? -1 : 1)));
}
