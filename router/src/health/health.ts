import { BaseType } from "@sallyport/wire";
import type { ControllerConnection } from "../control/controllers/controller-connection.ts";
import type { Controllers } from "../control/controllers/controllers.ts";
import type { Link } from "../link/link.ts";

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

  /** Every check in short, for people: one that has not run yet is not healthy, but has not failed either. */
  states(): CheckState[] {
    return this.#checks.map((check) => {
      const { id, healthy, err } = check.result();
      return { id, healthy, hasRun: check.hasRun, error: err?.message };
    });
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

/** A check as the `health-checks` API shows it (docs/router/observability.md, "Health"). */
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

/** A check as `sallyport-router status` shows it. */
export interface CheckState {
  readonly id: string;
  readonly healthy: boolean;
  /** False until its first look has ended, which is after its initial delay. */
  readonly hasRun: boolean;
  /** Why it is not healthy. */
  readonly error?: string | undefined;
}

interface CheckError {
  readonly message: string;
  readonly cause?: CheckError | undefined;
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
  /** Undefined before the first look, `null` when it had none. */
  #details: unknown;

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

  get hasRun(): boolean {
    return this.#details !== undefined;
  }

  result(): CheckResult {
    return {
      id: this.id,
      healthy: this.isHealthy,
      lastCheckTime: seconds(this.#at),
      lastCheckDuration: durationText(this.#tookNs),
      ...(this.#details === undefined ? {} : { details: this.#details }),
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
      details = error instanceof CheckFailed ? error.details : this.#details;
    }
    this.#at = Date.now();
    this.#tookNs = (performance.now() - started) * 1e6;
    this.#details = details ?? null;
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
  return { message: error.message, cause: error.cause === undefined ? undefined : errorOf(error.cause) };
}

/** RFC 3339 to the second. */
function seconds(at: number): string {
  return new Date(at).toISOString().replace(/\.\d+Z$/, "Z");
}

/**
 * Passes when a controller is connected, answers its heartbeats in time, and answers a ping now. Pings go to all of them
 * at once, and the first answer will do. Channels in groups have no pings: there the heartbeats are all that counts.
 */
export function controllerPing(controllers: Pick<Controllers, "all" | "isResponsive">): Look {
  return async (signal) => {
    const connected = controllers.all();
    if (connected.length === 0) throw new CheckFailed("no control channels established yet");
    const responsive = connected.filter((controller) => controllers.isResponsive(controller));
    if (responsive.length === 0) throw new CheckFailed("control channels are slow");
    try {
      await Promise.any(responsive.map((controller) => ping(controller, signal)));
    } catch (error) {
      const [cause] = error instanceof AggregateError ? error.errors : [error];
      throw new CheckFailed("control channels are slow", { cause });
    }
    return undefined;
  };
}

async function ping({ channel }: ControllerConnection, signal: AbortSignal): Promise<void> {
  if (channel.isGrouped) return;
  await channel.request({ contentType: BaseType.Ping }, { signal });
}

/** Passes with as many links as there should be at least; its details are the links. */
export function linkHealth(links: () => readonly Link[], minLinks: number): Look {
  return () => {
    const all = links();
    const details = all.length === 0 ? null : all.map(linkDetail);
    if (all.length >= minLinks) return details;
    throw new CheckFailed(`link count ${all.length} less than configured minimum of ${minLinks}`, { details });
  };
}

/** The keys in the order in which they are shown; of several connections of one type the last is shown. */
function linkDetail(link: Link) {
  const addresses = Object.fromEntries(
    link.connections().map(({ type, localAddr, remoteAddr }) => [type, { localAddr, remoteAddr }]),
  );
  return { linkId: link.id, destRouterId: link.peerId, latency: link.latency.mean, addresses };
}

const UNITS = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
] as const;

/** A duration as OpenZiti's programs write it: `52.1µs`, `1.5s`, `1m2.5s`; at most three digits behind the point. */
export function durationText(ns: number): string {
  if (ns <= 0) return "0s";
  const minutes = Math.floor(ns / 60e9);
  if (minutes > 0) {
    const rest = `${minutes % 60}m${shortNumber((ns % 60e9) / 1e9)}s`;
    return minutes >= 60 ? `${Math.floor(minutes / 60)}h${rest}` : rest;
  }
  for (const [unit, length] of UNITS) if (ns >= length) return `${shortNumber(ns / length)}${unit}`;
  return `${Math.max(1, Math.round(ns))}ns`;
}

function shortNumber(value: number): string {
  return String(Math.round(value * 1000) / 1000);
}
