import { once } from "node:events";
import { connect } from "node:net";
import { errorText } from "@sallyport/async";
import type { Logger, PrecedenceName } from "@sallyport/wire";
import type { HealthAction, HealthCheckConfig, HealthEffect } from "../config/health-config.ts";
import type { HostedTerminator } from "../overlay.ts";

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

/** Of an answer so much is searched for what is expected in it. */
const MAX_BODY = 1024 * 1024;

/** Looks once. @returns why the check fails; undefined when it passes */
export async function runCheck(check: HealthCheckConfig, stopped: AbortSignal): Promise<string | undefined> {
  const timeout = AbortSignal.timeout(check.timeoutMs);
  const signal = AbortSignal.any([timeout, stopped]);
  try {
    return await (check.kind === "port" ? checkPort(check, signal) : checkHttp(check, signal));
  } catch (error) {
    if (timeout.aborted) return `no answer within ${check.timeoutMs} ms`;
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
    return `${errorText(error)}${cause}`;
  }
}

async function checkPort(check: { host: string; port: number }, signal: AbortSignal): Promise<undefined> {
  const socket = connect({ host: check.host, port: check.port });
  try {
    await once(socket, "connect", { signal });
  } finally {
    socket.destroy();
  }
}

async function checkHttp(
  check: Extract<HealthCheckConfig, { kind: "http" }>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { url, method, body, expectStatus, expectInBody } = check;
  const response = await fetch(url, {
    method,
    ...(body === undefined || method === "GET" ? {} : { body }),
    // Each look is a connection of its own: a kept one says nothing about the next client's.
    headers: { connection: "close" },
    signal,
  });
  const text = await textOf(response);
  if (response.status !== expectStatus) return `expected status ${expectStatus}, got ${response.status}`;
  if (expectInBody !== undefined && !text.includes(expectInBody)) {
    return `expected ${JSON.stringify(expectInBody)} in the body`;
  }
  return undefined;
}

async function textOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > MAX_BODY) break;
  }
  return Buffer.concat(chunks).toString("utf8");
}
