import { backoffDelay, MAX_TIMER_MS } from "@sallyport/async";
import { FairShare, namespaceOf, WaitingKeys } from "./waiting-keys.ts";

/** Where a queue counts. Times are seconds. */
export interface QueueMetrics {
  added(): void;
  retried(): void;
  /** A key was taken that had waited this long. */
  taken(waitedSeconds: number): void;
  /** Work on a key ended after this long. */
  done(workedSeconds: number): void;
}

interface WorkQueueOptions {
  readonly limiter?: RetryLimiter;
  readonly metrics?: QueueMetrics;
  /**
   * Keys in work at the same time, at most; namespaces share them as {@link FairShare} says, so that what hangs in some keeps no other waiting. Default: no limit.
   */
  readonly workers?: number;
}

/** `resync` keys wait until no `change` key does. */
export type Priority = "change" | "resync";

/**
 * Keys that need work. Many adds of one key are one entry; a key that is being worked on is not handed out again, but once more afterwards
 * when it was added meanwhile (docs/operator/machinery.md, "Work queue").
 */
export class WorkQueue<Key extends string = string> {
  readonly #limiter: RetryLimiter;
  readonly #metrics: QueueMetrics | undefined;
  readonly #waiting: Readonly<Record<Priority, WaitingKeys<Key>>> = {
    change: new WaitingKeys(),
    resync: new WaitingKeys(),
  };
  /** Keys in work, by when that began. */
  readonly #working = new Map<Key, number>();
  /** Keys that were added while they were in work. */
  readonly #again = new Map<Key, Priority>();
  readonly #delayed = new Map<Key, { readonly dueAt: number; readonly timer: NodeJS.Timeout }>();
  /** Of the workers, among the namespaces of the keys in work. */
  readonly #share: FairShare;
  readonly #takers: ((key: Key | undefined) => void)[] = [];
  #isClosed = false;

  constructor({ limiter = new RetryLimiter(), metrics, workers }: WorkQueueOptions = {}) {
    this.#limiter = limiter;
    this.#metrics = metrics;
    this.#share = new FairShare(workers ?? Number.POSITIVE_INFINITY);
  }

  /** Keys that wait to be taken. */
  get depth(): number {
    return this.#waiting.change.size + this.#waiting.resync.size + this.#again.size;
  }

  /** When work on each key began that is in work: `performance.now()`. */
  get working(): ReadonlyMap<Key, number> {
    return this.#working;
  }

  /** Keys that come back after a delay. */
  get delayed(): number {
    return this.#delayed.size;
  }

  add(key: Key, priority: Priority = "change"): void {
    if (this.#isClosed) return;
    this.#forgetDelay(key);
    if (this.#working.has(key)) {
      if (!this.#again.has(key)) this.#metrics?.added();
      if (this.#again.get(key) !== "change") this.#again.set(key, priority);
      return;
    }
    const { change, resync } = this.#waiting;
    if (change.has(key) || (priority === "resync" && resync.has(key))) return;
    const since = resync.delete(key);
    if (since === undefined) this.#metrics?.added();
    this.#waiting[priority].add(key, since ?? performance.now());
    this.#handOut();
  }

  /** Adds the key later; of several delays of one key the shortest counts. An add in the meantime replaces it. */
  addAfter(key: Key, delayMs: number, priority: Priority = "resync"): void {
    if (this.#isClosed) return;
    if (delayMs <= 0) {
      this.add(key, priority);
      return;
    }
    const dueAt = performance.now() + delayMs;
    const known = this.#delayed.get(key);
    if (known !== undefined && known.dueAt <= dueAt) return;
    this.#forgetDelay(key);
    const timer = setTimeout(
      () => {
        this.#delayed.delete(key);
        this.add(key, priority);
      },
      Math.min(delayMs, MAX_TIMER_MS),
    );
    this.#delayed.set(key, { dueAt, timer });
  }

  /** Adds the key after the delay of its failures, at least after `atLeastMs`; answers the delay. */
  retry(key: Key, atLeastMs = 0): number {
    const delayMs = Math.max(this.#limiter.failed(key), atLeastMs);
    this.#metrics?.retried();
    this.addAfter(key, delayMs, "change");
    return delayMs;
  }

  /** How often the key failed since it was last forgotten. */
  failures(key: Key): number {
    return this.#limiter.failures(key);
  }

  /** The next failure of the key counts as its first. */
  forget(key: Key): void {
    this.#limiter.forget(key);
  }

  /** The next key, when there is one; undefined when the queue is closed. The taker must call {@link done}. */
  take(): Promise<Key | undefined> {
    if (this.#isClosed) return Promise.resolve(undefined);
    const { promise, resolve } = Promise.withResolvers<Key | undefined>();
    this.#takers.push(resolve);
    this.#handOut();
    return promise;
  }

  /** Work on the key ended, well or not. */
  done(key: Key): void {
    const since = this.#working.get(key);
    if (since === undefined) return;
    this.#working.delete(key);
    this.#share.giveBack(namespaceOf(key));
    this.#metrics?.done((performance.now() - since) / 1000);
    if (this.#isClosed) return;
    const again = this.#again.get(key);
    this.#again.delete(key);
    if (again !== undefined) this.#waiting[again].add(key, performance.now());
    this.#handOut();
  }

  /** Hands out nothing any more; takers that wait get undefined. Keys in work may still be {@link done}. */
  close(): void {
    this.#isClosed = true;
    for (const key of [...this.#delayed.keys()]) this.#forgetDelay(key);
    for (const map of [this.#waiting.change, this.#waiting.resync, this.#again]) map.clear();
    for (const taker of this.#takers.splice(0)) taker(undefined);
  }

  #handOut(): void {
    const mayHave = (namespace: string): boolean => this.#share.mayTake(namespace);
    const { change, resync } = this.#waiting;
    while (this.#takers.length > 0) {
      const next = change.take(mayHave) ?? resync.take(mayHave);
      if (next === undefined) return;
      const [key, since] = next;
      this.#working.set(key, performance.now());
      this.#share.take(namespaceOf(key));
      this.#metrics?.taken((performance.now() - since) / 1000);
      this.#takers.shift()?.(key);
    }
  }

  #forgetDelay(key: Key): void {
    clearTimeout(this.#delayed.get(key)?.timer);
    this.#delayed.delete(key);
  }
}

const FIRST_MS = 5;
const MAX_MS = 1_000_000;
const PER_SECOND = 10;
const BURST = 100;
/** Namespaces that are remembered before those that wait for nothing are forgotten. */
const MEMORY = 1_000;

interface RetryLimiterOptions {
  /** Delay after the first failure of a key; doubles. Default 5 ms. */
  readonly firstMs?: number;
  /** Default 1,000 s. */
  readonly maxMs?: number;
  /** Retries of all keys of a namespace together; default 10 per second, after a burst of 100. */
  readonly perSecond?: number;
  readonly burst?: number;
}

/** How long a failed key waits: longer for each of its failures in a row, and longer when very many keys of its namespace fail. The longer of both counts. */
export class RetryLimiter {
  readonly #o: Required<RetryLimiterOptions>;
  readonly #failures = new Map<string, number>();
  /** By namespace: until when the retries that were promised would take, one after the other at the rate. */
  readonly #takenUntil = new Map<string, number>();

  constructor(o: RetryLimiterOptions = {}) {
    this.#o = { firstMs: FIRST_MS, maxMs: MAX_MS, perSecond: PER_SECOND, burst: BURST, ...o };
  }

  /** Counts a failure of the key and answers its delay in milliseconds. */
  failed(key: string): number {
    const { firstMs, maxMs } = this.#o;
    const before = this.#failures.get(key) ?? 0;
    this.#failures.set(key, before + 1);
    return Math.max(backoffDelay(before + 1, { firstMs, maxMs }), this.#turnDelay(namespaceOf(key)));
  }

  failures(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  forget(key: string): void {
    this.#failures.delete(key);
  }

  #turnDelay(namespace: string): number {
    const { perSecond, burst } = this.#o;
    const now = performance.now();
    const eachMs = 1000 / perSecond;
    const takenUntil = Math.max(this.#takenUntil.get(namespace) ?? now, now) + eachMs;
    if (this.#takenUntil.size >= MEMORY) this.#forgetIdle(now);
    this.#takenUntil.set(namespace, takenUntil);
    return Math.max(0, takenUntil - now - burst * eachMs);
  }

  #forgetIdle(now: number): void {
    for (const [namespace, takenUntil] of this.#takenUntil) if (takenUntil <= now) this.#takenUntil.delete(namespace);
  }
}
