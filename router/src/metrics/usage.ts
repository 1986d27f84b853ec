import type { Logger } from "@sallyport/wire";
import type { Circuit } from "../forwarder/circuit.ts";
import { kindsOf, type TrafficKind } from "./traffic.ts";

/** Usage of one interval as a report carries it: bytes by circuit and kind. */
export interface UsageInReport {
  /** Unix seconds. */
  readonly start: number;
  readonly lengthSeconds: number;
  readonly circuits: ReadonlyMap<string, CircuitUsage>;
}

export interface CircuitUsage {
  readonly bytes: ReadonlyMap<TrafficKind, number>;
  /** Of the controller's route. */
  readonly tags: Readonly<Record<string, string>>;
}

export interface UsageOptions {
  readonly circuits: () => Iterable<Circuit>;
  /** Length of an interval; whole seconds, one at least. */
  readonly intervalMs: number;
  /** Usage younger than this is kept for a later report. */
  readonly minAgeMs: number;
  /** Circuits that have ended wait in a queue of this length for the next look. */
  readonly endedQueue: number;
  readonly log: Logger;
}

/** Circuits over all intervals that are kept while no controller takes reports. */
const MAX_KEPT = 200_000;

/**
 * Who moved how many bytes in which interval of the clock (docs/protocol/control.md, "Usage"). The numbers are those that
 * the forwarder counts anyway; they are read when an interval ends, and when a circuit does.
 */
export class Usage {
  readonly #o: UsageOptions;
  readonly #lengthSeconds: number;
  readonly #intervals = new Map<number, Map<string, { bytes: Map<TrafficKind, number>; tags: CircuitUsage["tags"] }>>();
  readonly #ended: Circuit[] = [];
  #timer: NodeJS.Timeout | undefined;
  #kept = 0;

  constructor(options: UsageOptions) {
    this.#o = options;
    this.#lengthSeconds = Math.max(1, Math.round(options.intervalMs / 1000));
    this.#wait();
  }

  /** A circuit is no longer among the circuits: its last bytes are counted in the interval of now. */
  ended(circuit: Circuit): void {
    this.#ended.push(circuit);
    if (this.#ended.length < this.#o.endedQueue) return;
    const start = this.#startOf(Date.now());
    for (const one of this.#ended.splice(0)) this.#count(one, start);
  }

  /** Reads all counters into the interval that `now` lies in. */
  collect(now: number): void {
    const start = this.#startOf(now);
    for (const circuit of this.#ended.splice(0)) this.#count(circuit, start);
    for (const circuit of this.#o.circuits()) this.#count(circuit, start);
    this.#shed();
  }

  /** Hands out the intervals that are over and old enough, oldest first; all of them with `everything`. */
  take(now: number, everything = false): UsageInReport[] {
    const minAgeMs = Math.max(this.#o.minAgeMs, this.#lengthSeconds * 1000);
    const taken: UsageInReport[] = [];
    for (const [start, circuits] of [...this.#intervals].sort(([a], [b]) => a - b)) {
      if (!everything && now - start * 1000 < minAgeMs) continue;
      this.#intervals.delete(start);
      this.#kept -= circuits.size;
      taken.push({ start, lengthSeconds: this.#lengthSeconds, circuits });
    }
    return taken;
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  /** Until the interval ends. */
  #wait(): void {
    const end = (this.#startOf(Date.now()) + this.#lengthSeconds) * 1000;
    const timer = setTimeout(() => {
      this.collect(end - 1);
      this.#wait();
    }, end - Date.now());
    this.#timer = timer.unref();
  }

  #startOf(now: number): number {
    return Math.floor(now / 1000 / this.#lengthSeconds) * this.#lengthSeconds;
  }

  #count(circuit: Circuit, start: number): void {
    for (const forward of circuit.forwards) {
      const more = forward.bytes - forward.bytesReported;
      if (more <= 0) continue;
      forward.bytesReported = forward.bytes;
      const { bytes } = this.#usageOf(circuit, start);
      for (const kind of kindsOf(circuit, forward)) bytes.set(kind, (bytes.get(kind) ?? 0) + more);
    }
  }

  #usageOf(circuit: Circuit, start: number) {
    const interval = this.#intervals.get(start) ?? new Map();
    this.#intervals.set(start, interval);
    const known = interval.get(circuit.id);
    if (known !== undefined) return known;
    const made = { bytes: new Map<TrafficKind, number>(), tags: circuit.tags };
    interval.set(circuit.id, made);
    this.#kept++;
    return made;
  }

  /** No controller has taken reports for long: the oldest intervals go. */
  #shed(): void {
    while (this.#kept > MAX_KEPT && this.#intervals.size > 1) {
      const oldest = Math.min(...this.#intervals.keys());
      const circuits = this.#intervals.get(oldest)?.size ?? 0;
      this.#intervals.delete(oldest);
      this.#kept -= circuits;
      this.#o.log.warn({ interval: oldest, circuits }, "usage was dropped: no controller takes reports");
    }
  }
}
