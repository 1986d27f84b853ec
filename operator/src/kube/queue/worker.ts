import type { Logger } from "@sallyport/wire";
import { KubeError } from "../client/errors.ts";
import { Deadline } from "../deadline.ts";
import type { WorkQueue } from "./work-queue.ts";

const TIMEOUT_MS = 300_000;

/** What work on a key asks for: nothing, or another look after a time. That is no failure. */
// biome-ignore lint/suspicious/noConfusingVoidType: work that asks for nothing returns nothing
export type Result = { readonly requeueAfterMs?: number } | void;

/** Where workers count; `seconds` is how long the work took. */
export interface WorkerMetrics {
  started(): void;
  finished(end: "success" | "requeue_after" | "error" | "timeout", seconds: number, error?: unknown): void;
}

export interface WorkerOptions<Key extends string> {
  /** For the log: the kind that is worked on. */
  readonly name: string;
  readonly queue: WorkQueue<Key>;
  /** Keys in work at the same time; default 4. */
  readonly concurrency?: number;
  /** Work on one key takes no longer, milliseconds; default 300,000. What is under way then is told to stop and repeated. */
  readonly timeoutMs?: number;
  /** Brings one key into order. The signal ends with the worker, and with the time of the work. After an error it is repeated, later and later. */
  readonly work: (key: Key, signal: AbortSignal) => Promise<Result>;
  /** Errors that are told elsewhere already, and only ask for another look: no warnings for them. */
  readonly isExpected?: (error: unknown) => boolean;
  readonly log: Logger;
  readonly metrics?: WorkerMetrics;
}

/** Takes keys from a queue and works on them until it is stopped. */
export class Worker<Key extends string = string> {
  readonly #o: WorkerOptions<Key>;

  constructor(o: WorkerOptions<Key>) {
    this.#o = o;
  }

  /** Works until the signal ends it, and then until what is in work has ended; closes the queue. */
  async run(signal: AbortSignal): Promise<void> {
    const { queue, concurrency = 4 } = this.#o;
    const close = (): void => queue.close();
    signal.addEventListener("abort", close, { once: true });
    if (signal.aborted) close();
    await Promise.all(Array.from({ length: concurrency }, () => this.#loop(signal)));
    signal.removeEventListener("abort", close);
  }

  async #loop(signal: AbortSignal): Promise<void> {
    const { queue } = this.#o;
    for (;;) {
      const key = await queue.take();
      if (key === undefined) return;
      try {
        await this.#workOn(key, signal);
      } finally {
        queue.done(key);
      }
    }
  }

  async #workOn(key: Key, signal: AbortSignal): Promise<void> {
    const { name, queue, work, isExpected, log, metrics, timeoutMs = TIMEOUT_MS } = this.#o;
    const startedAt = performance.now();
    const seconds = (): number => (performance.now() - startedAt) / 1000;
    const deadline = new Deadline(timeoutMs, signal);
    metrics?.started();
    try {
      const result = await work(key, deadline.signal);
      queue.forget(key);
      const again = result?.requeueAfterMs;
      metrics?.finished(again === undefined ? "success" : "requeue_after", seconds());
      if (again !== undefined) queue.addAfter(key, again);
    } catch (error) {
      metrics?.finished(deadline.isOver ? "timeout" : "error", seconds(), error);
      if (signal.aborted) return;
      const delayMs = queue.retry(key, error instanceof KubeError ? error.retryAfterMs : undefined);
      const again = { kind: name, key, failures: queue.failures(key), delayMs: Math.round(delayMs) };
      if (isExpected?.(error)) log.debug({ ...again, message: String(error) }, "waits; trying again");
      else log.warn({ ...again, err: error }, "failed; trying again");
    } finally {
      deadline.release();
    }
  }
}
