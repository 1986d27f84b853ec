import { pause } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { KubeError } from "../client/errors.ts";
import { FairShare, namespaceOf } from "../queue/waiting-keys.ts";
import { WorkQueue } from "../queue/work-queue.ts";

/** Writes at the same time. Of one namespace half of them at most, which leaves the server to the work itself. */
const UNDER_WAY = 4;
/** Writes that wait or are under way; namespaces share the places as {@link FairShare} says. */
const PLACES = 2_000;
const ATTEMPTS = 12;
const RETRY_MS = 1_000;

/** Why an event was not told: no place to wait in, too many about one object, or the server did not take it. */
export const DROP_REASONS = ["full", "limited", "failed"] as const;
export type DropReason = (typeof DROP_REASONS)[number];

/** Where events count that are not told. */
export interface EventMetrics {
  dropped(reason: DropReason): void;
}

interface EventWritesOptions {
  readonly log: Logger;
  /** Between attempts to write, milliseconds; default 1,000. */
  readonly retryMs?: number | undefined;
  readonly metrics?: EventMetrics | undefined;
}

/** One write about an object. */
interface EventWrite {
  /** @throws KubeError */
  run(signal: AbortSignal): Promise<void>;
  /** It will not be written. */
  onDropped?(): void;
}

interface WaitingEvent extends EventWrite {
  attempts: number;
}

/**
 * Writes about objects, behind the work: those about one object one after the other, in the order of coming, and a few about different objects at the same
 * time. One that the server cannot take now waits for its next attempt without keeping those about other objects. Too many are dropped, the newest first.
 */
export class EventWrites {
  readonly #o: EventWritesOptions;
  /** Objects with writes that are due. */
  readonly #due = new WorkQueue({ workers: UNDER_WAY });
  /** By object; none is empty. The first one is due or under way. */
  readonly #waiting = new Map<string, WaitingEvent[]>();
  readonly #share = new FairShare(PLACES);
  readonly #stop = new AbortController();
  readonly #writing: Promise<unknown>;
  #onIdle: (() => void) | undefined;
  #isDropping = false;

  constructor(o: EventWritesOptions) {
    this.#o = o;
    this.#writing = Promise.all(Array.from({ length: UNDER_WAY }, () => this.#run()));
  }

  /** @param object key of what it is about: its namespace, a slash, and what tells it from all others */
  add(object: string, write: EventWrite): void {
    const namespace = namespaceOf(object);
    if (!this.#share.mayTake(namespace)) {
      if (!this.#isDropping) this.#o.log.warn({ namespace }, "events wait too long to be written; some are dropped");
      this.#isDropping = true;
      this.#drop(write, "full");
      return;
    }
    this.#share.take(namespace);
    const entry = { ...write, attempts: 0 };
    const before = this.#waiting.get(object);
    if (before !== undefined) {
      before.push(entry);
      return;
    }
    this.#waiting.set(object, [entry]);
    this.#due.add(object);
  }

  /** Writes what waits, at most for this long, then nothing any more. */
  async close(timeoutMs: number): Promise<void> {
    const idle = new AbortController();
    this.#onIdle = () => idle.abort();
    if (this.#waiting.size > 0) await pause(timeoutMs, idle.signal);
    this.#stop.abort(new Error("the recorder of events is closed"));
    this.#due.close();
    await this.#writing;
  }

  async #run(): Promise<void> {
    for (;;) {
      const object = await this.#due.take();
      if (object === undefined) return;
      const delayMs = await this.#writeFirst(object, this.#waiting.get(object) ?? []);
      this.#due.done(object);
      if (this.#waiting.has(object)) this.#due.addAfter(object, delayMs, "change");
    }
  }

  /** Answers how long the next write about the object has to wait, milliseconds. */
  async #writeFirst(object: string, waiting: WaitingEvent[]): Promise<number> {
    const [first] = waiting;
    if (first === undefined) return 0;
    try {
      await first.run(this.#stop.signal);
    } catch (error) {
      if (this.#stop.signal.aborted) return 0;
      first.attempts += 1;
      if (first.attempts < ATTEMPTS && isWorthRepeating(error)) {
        return Math.max(this.#o.retryMs ?? RETRY_MS, error.retryAfterMs ?? 0);
      }
      // A namespace that is being deleted takes no events.
      if (error instanceof KubeError && error.isNamespaceTerminating) this.#o.log.debug({ err: error }, "no event");
      else this.#o.log.warn({ err: error }, "an event could not be written");
      this.#drop(first, "failed");
    }
    waiting.shift();
    this.#share.giveBack(namespaceOf(object));
    if (waiting.length === 0) this.#waiting.delete(object);
    if (this.#waiting.size === 0) {
      this.#isDropping = false;
      this.#onIdle?.();
    }
    return 0;
  }

  #drop(write: EventWrite, reason: DropReason): void {
    this.#o.metrics?.dropped(reason);
    write.onDropped?.();
  }
}

function isWorthRepeating(error: unknown): error is KubeError {
  if (!(error instanceof KubeError)) return false;
  return error.isUnreachable || error.status === 429 || error.status >= 500;
}
