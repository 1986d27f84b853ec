import type { Logger } from "@sallyport/wire";
import type { HealthCheckConfig } from "../config/health-config.ts";
import type { HostedTerminator } from "../overlay.ts";
import { runCheck } from "./checks.ts";
import { applyEffect, CheckHistory, type Offer } from "./health-state.ts";

/** Looks after the health of one terminator's application, and offers the terminator accordingly. */
export class HealthMonitor {
  readonly #name: string;
  readonly #terminator: HostedTerminator;
  readonly #baseline: Offer;
  readonly #log: Logger;
  readonly #stopped = new AbortController();
  readonly #timers = new Set<NodeJS.Timeout>();
  #offer: Offer;

  /**
   * @param name of the terminator; its checks are `<name>_<n>` in logs
   * @param baseline what the terminator was made with
   */
  constructor(name: string, terminator: HostedTerminator, baseline: Offer, log: Logger) {
    this.#name = name;
    this.#terminator = terminator;
    this.#baseline = baseline;
    this.#offer = baseline;
    this.#log = log;
  }

  /** Starts looking, at once and then in each check's interval. */
  start(checks: readonly HealthCheckConfig[]): void {
    checks.forEach((check, i) => {
      const run = this.#runner(check, `${this.#name}_${i}`);
      run();
      this.#timers.add(setInterval(run, check.intervalMs));
    });
  }

  stop(): void {
    this.#stopped.abort();
    for (const timer of this.#timers) clearInterval(timer);
    this.#timers.clear();
  }

  #runner(check: HealthCheckConfig, id: string): () => void {
    const history = new CheckHistory();
    let wasPassing = true;
    let isRunning = false;
    return () => {
      // A look that takes longer than the interval is not overtaken.
      if (isRunning) return;
      isRunning = true;
      void runCheck(check, this.#stopped.signal).then((failure) => {
        isRunning = false;
        if (this.#stopped.signal.aborted) return;
        const passed = failure === undefined;
        if (passed !== wasPassing) this.#log.info({ check: id, passed, reason: failure }, "health has changed");
        wasPassing = passed;
        this.#apply(check, history, passed);
      });
    };
  }

  #apply(check: HealthCheckConfig, history: CheckHistory, passed: boolean): void {
    const before = this.#offer;
    for (const { effect } of history.add(passed, performance.now(), check.actions)) {
      if (effect.kind === "send event") this.#terminator.healthEvent(passed);
      this.#offer = applyEffect(this.#offer, this.#baseline, effect);
    }
    const { cost, precedence } = this.#offer;
    if (cost === before.cost && precedence === before.precedence) return;
    this.#log.info({ terminator: this.#name, cost, precedence }, "the terminator is offered differently");
    const change = {
      ...(cost === before.cost ? {} : { cost }),
      ...(precedence === before.precedence ? {} : { precedence }),
    };
    this.#terminator
      .update(change)
      .catch((err: unknown) => this.#log.warn({ terminator: this.#name, err }, "the terminator could not be updated"));
  }
}
