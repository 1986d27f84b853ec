import { BoundedMap } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { KubeClient } from "../client/client.ts";
import { KubeError } from "../client/errors.ts";
import { microTime } from "../formats.ts";
import { apiVersionOf, KINDS, type KubeObject } from "../kinds.ts";
import { type EventMetrics, EventWrites } from "./event-writes.ts";

const NOTE_BYTES = 1024;
const NAME_LIMIT = 128;
/** A series that was silent for this long is over; what comes then is a new event. */
const SERIES_SILENCE_MS = 6 * 60_000;
/** The count of a series that goes on is written this often. */
const SERIES_REFRESH_MS = 30 * 60_000;

/** What happened to an object. */
export interface EventNote {
  readonly type: "Normal" | "Warning";
  /** Machine word: `RouterVerified`. */
  readonly reason: string;
  /** What was done: `Enroll`. */
  readonly action: string;
  /** For people; no secrets. */
  readonly note: string;
}

interface EventRecorderOptions {
  readonly client: Pick<KubeClient, "create" | "patch">;
  /** Qualified name of who reports: `sallyport.dev/operator`. */
  readonly controller: string;
  /** Name of this pod. */
  readonly instance: string;
  readonly log: Logger;
  /** Between attempts to write, milliseconds; default 1,000. */
  readonly retryMs?: number;
  readonly metrics?: EventMetrics;
}

/** An event that was told, and how often since. */
interface Series {
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  /** Key of what it is about. */
  readonly object: string;
  /** False until the server has it. */
  isWritten: boolean;
  count: number;
  writtenCount: number;
  lastAt: number;
  lastTime: string;
  writtenAt: number;
}

/**
 * Tells people about objects (docs/operator/machinery.md, "Events"). Telling never waits and never fails: events are written behind by {@link EventWrites},
 * repeated ones as a series of one event, too many about one object not at all. They expire in the cluster and are no state.
 */
export class EventRecorder {
  readonly #o: EventRecorderOptions;
  readonly #filter = new SpamFilter();
  readonly #series = new Map<string, Series>();
  readonly #writes: EventWrites;
  readonly #sweeper: NodeJS.Timeout;
  #isClosed = false;
  #lastStamp = 0n;

  constructor(o: EventRecorderOptions) {
    this.#o = o;
    this.#writes = new EventWrites(o);
    this.#sweeper = setInterval(() => this.#sweep(), 60_000);
    this.#sweeper.unref();
  }

  /** Something happened to `regarding`. */
  record(regarding: KubeObject, event: EventNote): void {
    if (this.#isClosed) return;
    const { metadata } = regarding;
    const object = `${metadata.namespace ?? ""}/${regarding.kind}/${metadata.name}/${metadata.uid ?? ""}`;
    const like = [object, event.type, event.reason, event.action].join("|");
    const isFlood = this.#filter.isFlood(like, event.note);
    const key = isFlood ? `${like}|*` : `${like}|${event.note}`;
    const known = this.#series.get(key);
    const now = performance.now();
    if (known !== undefined && now - known.lastAt < SERIES_SILENCE_MS) {
      known.count += 1;
      known.lastAt = now;
      known.lastTime = microTime();
      // The second one shows that it is a series; how long it gets is written now and then.
      if (known.count === 2) this.#writeSeries(known);
      return;
    }
    if (!this.#filter.allows(object)) {
      this.#o.log.debug({ object, reason: event.reason }, "too many events about this object; dropped");
      this.#o.metrics?.dropped("limited");
      return;
    }
    const note = isFlood ? `(combined from similar events): ${event.note}` : event.note;
    this.#begin(key, object, regarding, { ...event, note });
  }

  /** Writes what waits, at most for this long, then nothing any more. */
  async close(timeoutMs = 5_000): Promise<void> {
    clearInterval(this.#sweeper);
    for (const series of this.#series.values()) if (series.count > series.writtenCount) this.#writeSeries(series);
    await this.#writes.close(timeoutMs);
    this.#isClosed = true;
  }

  #begin(key: string, object: string, regarding: KubeObject, event: EventNote): void {
    const namespace = regarding.metadata.namespace || "default";
    const name = `${regarding.metadata.name.slice(0, 230)}.${this.#stamp()}`;
    const now = performance.now();
    const series: Series = {
      key,
      namespace,
      name,
      object,
      isWritten: false,
      count: 1,
      writtenCount: 1,
      lastAt: now,
      lastTime: microTime(),
      writtenAt: now,
    };
    this.#series.delete(key);
    this.#series.set(key, series);
    const body = {
      apiVersion: apiVersionOf(KINDS.Event),
      kind: KINDS.Event.kind,
      metadata: { namespace, name },
      eventTime: series.lastTime,
      reportingController: this.#o.controller,
      reportingInstance: this.#o.instance.slice(0, NAME_LIMIT),
      action: event.action.slice(0, NAME_LIMIT),
      reason: event.reason.slice(0, NAME_LIMIT),
      type: event.type,
      note: clipped(event.note),
      regarding: referenceTo(regarding),
    };
    const run = async (signal: AbortSignal): Promise<void> => {
      try {
        await this.#o.client.create(body, { signal });
      } catch (error) {
        // An answer that was lost: the event is there.
        if (!(error instanceof KubeError && error.isAlreadyExists)) throw error;
      }
      series.isWritten = true;
    };
    this.#writes.add(object, { run, onDropped: () => this.#forget(series) });
  }

  #writeSeries(series: Series): void {
    const run = async (signal: AbortSignal): Promise<void> => {
      const { count, lastTime, namespace, name } = series;
      if (!series.isWritten || count <= series.writtenCount || !this.#filter.allows(series.object)) return;
      const patch = { series: { count, lastObservedTime: lastTime } };
      try {
        await this.#o.client.patch({ kind: KINDS.Event, namespace, name }, patch, { signal });
      } catch (error) {
        if (!(error instanceof KubeError && error.isNotFound)) throw error;
        // It expired in the cluster.
        this.#forget(series);
      }
      series.writtenCount = count;
      series.writtenAt = performance.now();
    };
    this.#writes.add(series.object, { run });
  }

  /** It expired: the next one is a new event. */
  #forget(series: Series): void {
    if (this.#series.get(series.key) === series) this.#series.delete(series.key);
  }

  /** Series that are over get their last count and are forgotten, long ones are brought up to date. */
  #sweep(): void {
    const now = performance.now();
    for (const [key, series] of this.#series) {
      const isOver = now - series.lastAt >= SERIES_SILENCE_MS;
      if (series.count > series.writtenCount && (isOver || now - series.writtenAt >= SERIES_REFRESH_MS)) {
        this.#writeSeries(series);
      }
      if (isOver) this.#series.delete(key);
    }
  }

  /** Hexadecimal nanoseconds, different for every event. */
  #stamp(): string {
    const now = BigInt(Date.now()) * 1_000_000n;
    this.#lastStamp = now > this.#lastStamp ? now : this.#lastStamp + 1n;
    return this.#lastStamp.toString(16);
  }
}

function referenceTo({ apiVersion, kind, metadata }: KubeObject): object {
  const { namespace, name, uid, resourceVersion } = metadata;
  return { apiVersion, kind, namespace, name, uid, resourceVersion };
}

/** At most 1024 bytes, never within a character. */
function clipped(note: string): string {
  const bytes = Buffer.from(note);
  if (bytes.length <= NOTE_BYTES) return note;
  const text = new TextDecoder().decode(bytes.subarray(0, NOTE_BYTES - 3)).replace(/\uFFFD+$/, "");
  return `${text}…`;
}

const BURST = 25;
const TOKEN_MS = 300_000;
const SIMILAR_LIMIT = 10;
const SIMILAR_MS = 600_000;
/** Objects that are remembered. */
const MEMORY = 4096;

interface Bucket {
  tokens: number;
  filledAt: number;
}

interface Similar {
  readonly notes: Set<string>;
  lastAt: number;
}

/** Keeps one object from filling the event store: a number of writes per object, and events that differ only in their words become one. */
class SpamFilter {
  readonly #buckets = new BoundedMap<string, Bucket>(MEMORY);
  readonly #similar = new BoundedMap<string, Similar>(MEMORY);

  /** True when one more write about the object is allowed: 25 at once, then one in five minutes. */
  allows(object: string): boolean {
    const now = performance.now();
    const bucket = this.#buckets.get(object) ?? { tokens: BURST, filledAt: now };
    this.#buckets.set(object, bucket);
    bucket.tokens = Math.min(BURST, bucket.tokens + (now - bucket.filledAt) / TOKEN_MS);
    bucket.filledAt = now;
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }

  /** True when more than ten events like this one, with different notes, came within ten minutes: they are told as one. */
  isFlood(kindOfEvent: string, note: string): boolean {
    const now = performance.now();
    const similar = this.#similar.get(kindOfEvent) ?? { notes: new Set<string>(), lastAt: now };
    this.#similar.set(kindOfEvent, similar);
    if (now - similar.lastAt > SIMILAR_MS) similar.notes.clear();
    similar.lastAt = now;
    if (similar.notes.size <= SIMILAR_LIMIT) similar.notes.add(note);
    return similar.notes.size > SIMILAR_LIMIT;
  }
}
