import { durationText } from "./duration-text.ts";

/** Looks once. @returns details to show @throws CheckFailed (with details), or any error, when the state is bad */
export type Look = (signal: AbortSignal) => Promise<unknown> | unknown;

/** The state that a check looks at is bad; `details` are shown all the same. */
export class CheckFailed extends Error {
  override readonly name = "CheckFailed";
  readonly details: unknown;

  constructor(message: string, o: { details?: unknown; cause?: unknown } = {}) {
    super(message, o.cause === undefined ? undefined : { cause: o.cause });
    this.details = o.details;
  }
}

export interface HealthCheckOptions {
  readonly id: string;
  readonly look: Look;
  readonly initialDelayMs: number;
  readonly intervalMs: number;
  /** A look that takes longer has failed. */
  readonly timeoutMs: number;
  /** What it passes for before the first look. */
  readonly initiallyPassing: boolean;
}

/** A check as the `health-checks` API shows it (docs/router-observability.md, "Health"). */
export interface CheckResult {
  readonly id: string;
  readonly healthy: boolean;
  readonly lastCheckTime: string;
  readonly lastCheckDuration: string;
  readonly err?: CheckError;
  readonly consecutiveFailures?: number;
  readonly failingSince?: string;
  readonly details?: unknown;
}

export interface CheckError {
  readonly message: string;
  readonly cause?: CheckError;
}

const NOT_RUN = { message: "didn't run yet" };

/** Looks at something again and again, one look at a time, and remembers how it went. */
export class HealthCheck {
  readonly id: string;
  readonly #o: HealthCheckOptions;
  readonly #stopped = new AbortController();
  #timer: NodeJS.Timeout;
  #error: CheckError | undefined;
  #failures = 0;
  #failingSince: number | undefined;
  #at = Date.now();
  #tookNs = 0;
  #details: { readonly value: unknown } | undefined;

  constructor(options: HealthCheckOptions) {
    this.id = options.id;
    this.#o = options;
    if (!options.initiallyPassing) {
      this.#error = NOT_RUN;
      this.#failures = 1;
      this.#failingSince = this.#at;
    }
    this.#timer = setTimeout(() => void this.#again(), options.initialDelayMs).unref();
  }

  get isHealthy(): boolean {
    return this.#error === undefined;
  }

  result(): CheckResult {
    return {
      id: this.id,
      healthy: this.isHealthy,
      lastCheckTime: seconds(this.#at),
      lastCheckDuration: durationText(this.#tookNs),
      ...(this.#details === undefined ? {} : { details: this.#details.value }),
      ...(this.#error === undefined ? {} : { err: this.#error, consecutiveFailures: this.#failures }),
      ...(this.#failingSince === undefined ? {} : { failingSince: seconds(this.#failingSince) }),
    };
  }

  /** One look, now; called by the timer. Never rejects. */
  async look(): Promise<void> {
    const limit = AbortSignal.any([AbortSignal.timeout(this.#o.timeoutMs), this.#stopped.signal]);
    const started = performance.now();
    let failure: unknown;
    let details: unknown;
    try {
      details = await Promise.race([this.#o.look(limit), rejection(limit, this.#o.timeoutMs)]);
    } catch (error) {
      failure = error ?? new Error("the check failed without a reason");
      details = error instanceof CheckFailed ? error.details : this.#details?.value;
    }
    this.#at = Date.now();
    this.#tookNs = (performance.now() - started) * 1e6;
    this.#details = { value: details ?? null };
    if (failure === undefined) {
      this.#error = undefined;
      this.#failures = 0;
      this.#failingSince = undefined;
    } else {
      this.#failures = this.#error === NOT_RUN ? 1 : this.#failures + 1;
      this.#error = errorOf(failure);
      this.#failingSince ??= this.#at;
    }
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#stopped.abort();
  }

  async #again(): Promise<void> {
    const started = performance.now();
    await this.look();
    if (this.#stopped.signal.aborted) return;
    const rest = Math.max(0, this.#o.intervalMs - (performance.now() - started));
    this.#timer = setTimeout(() => void this.#again(), rest).unref();
  }
}

function rejection(signal: AbortSignal, timeoutMs: number): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(new Error(`no result within ${timeoutMs} ms`)), { once: true });
  });
}

function errorOf(error: unknown): CheckError {
  if (!(error instanceof Error)) return { message: String(error) };
  return error.cause === undefined
    ? { message: error.message }
    : { message: error.message, cause: errorOf(error.cause) };
}

/** RFC 3339 to the second. */
function seconds(at: number): string {
  return new Date(at).toISOString().replace(/\.\d+Z$/, "Z");
}
