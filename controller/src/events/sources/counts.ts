import { errorText } from "@sallyport/async";
import { CircuitFailureCause } from "../../fabric/fabric-events.ts";
import type { Dispatcher } from "../dispatcher.ts";
import type { EventSink, ServiceEventType } from "../event.ts";

const INTERVAL_SECONDS = 60;
/** Different counters in one interval; what comes beyond is not counted. */
const MAX_COUNTERS = 100_000;

const TYPE_OF_CAUSE: Readonly<Partial<Record<CircuitFailureCause, ServiceEventType>>> = {
  [CircuitFailureCause.RouterDialTimedOut]: "service.dial.terminator.timeout",
  [CircuitFailureCause.RouterConnectionRefused]: "service.dial.terminator.connection_refused",
  [CircuitFailureCause.RouterInvalidTerminator]: "service.dial.terminator.invalid",
  [CircuitFailureCause.RouterMisconfiguredTerminator]: "service.dial.terminator.misconfigured",
};

interface Counter {
  readonly type: ServiceEventType;
  readonly serviceId: string;
  readonly terminatorId: string;
  count: number;
}

/** Counts dials by service, terminator and outcome, and emits the numbers of each minute when it is over. Counts nothing without a subscriber. */
export class ServiceCounters {
  readonly #sink: EventSink;
  readonly #now: () => number;
  readonly #counters = new Map<string, Counter>();
  #minute = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(sink: EventSink, now: () => number = Date.now) {
    this.#sink = sink;
    this.#now = now;
  }

  count(type: ServiceEventType, serviceId: string, terminatorId = ""): void {
    if (!this.#sink.wants("service")) return;
    this.#begin();
    const key = `${type} ${serviceId} ${terminatorId}`;
    const counter = this.#counters.get(key);
    if (counter !== undefined) counter.count += 1;
    else if (this.#counters.size < MAX_COUNTERS) {
      this.#counters.set(key, { type, serviceId, terminatorId, count: 1 });
    }
  }

  /** One terminator could not be reached. */
  dialFailed(event: { serviceId: string; terminatorId: string; cause: CircuitFailureCause }): void {
    const { serviceId, terminatorId, cause } = event;
    if (cause === CircuitFailureCause.RouterResponseTimeout) {
      this.count("service.dial.timeout", serviceId, terminatorId);
      return;
    }
    this.count("service.dial.fail", serviceId, terminatorId);
    const type = TYPE_OF_CAUSE[cause];
    if (type !== undefined) this.count(type, serviceId, terminatorId);
  }

  /** A circuit did not come about. Counts only when no terminator was tried at all: each attempt was counted by itself. */
  circuitFailed(event: { serviceId: string; terminatorId: string }): void {
    if (event.terminatorId === "") this.count("service.dial.error_other", event.serviceId);
  }

  /** Emits the counts of the minutes that are over; `all`: also of the present one. */
  flush(all = false): void {
    if (this.#counters.size === 0 || (minuteOf(this.#now()) === this.#minute && !all)) return;
    const counters = [...this.#counters.values()];
    this.#counters.clear();
    for (const { type, serviceId, terminatorId, count } of counters) {
      this.#sink.emit({
        namespace: "service",
        version: 2,
        event_type: type,
        service_id: serviceId,
        terminator_id: terminatorId,
        count,
        interval_start_utc: this.#minute * INTERVAL_SECONDS,
        interval_length: INTERVAL_SECONDS,
      });
    }
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.flush(true);
  }

  #begin(): void {
    const now = this.#now();
    const minute = minuteOf(now);
    if (minute === this.#minute && this.#timer !== undefined) return;
    this.flush();
    this.#minute = minute;
    clearTimeout(this.#timer);
    const leftMs = (minute + 1) * INTERVAL_SECONDS * 1_000 - now;
    const flush = () => {
      this.#timer = undefined;
      this.flush();
    };
    this.#timer = setTimeout(flush, leftMs + 5).unref();
  }
}

function minuteOf(ms: number): number {
  return Math.floor(ms / 1_000 / INTERVAL_SECONDS);
}

/** Counts entities for its subscribers, each at the interval of the subscription. */
export class CountSource {
  readonly #dispatcher: Dispatcher;
  readonly #counts: () => Promise<Readonly<Record<string, number>>>;
  readonly #isTeller: () => boolean;
  readonly #timers = new Map<number, NodeJS.Timeout>();
  readonly #running = new Set<number>();
  readonly #stopDemand: () => void;

  /** @param isTeller is it this controller that tells what all of them know? */
  constructor(
    dispatcher: Dispatcher,
    counts: () => Promise<Readonly<Record<string, number>>>,
    isTeller: () => boolean = () => true,
  ) {
    this.#dispatcher = dispatcher;
    this.#counts = counts;
    this.#isTeller = isTeller;
    this.#stopDemand = dispatcher.onDemand(() => this.#demandChanged());
  }

  stop(): void {
    this.#stopDemand();
    for (const timer of this.#timers.values()) clearInterval(timer);
    this.#timers.clear();
  }

  #demandChanged(): void {
    const wanted = this.#dispatcher.intervals("entityCount");
    for (const [interval, timer] of this.#timers) {
      if (wanted.has(interval)) continue;
      clearInterval(timer);
      this.#timers.delete(interval);
    }
    for (const interval of wanted) {
      if (this.#timers.has(interval)) continue;
      this.#timers.set(interval, setInterval(() => void this.#emitCounts(interval), interval).unref());
    }
  }

  /** A count that takes longer than the interval is not started again meanwhile. */
  async #emitCounts(interval: number): Promise<void> {
    if (this.#running.has(interval)) return;
    this.#running.add(interval);
    let counts: Readonly<Record<string, number>> = {};
    let error = "";
    try {
      counts = await this.#counts();
    } catch (cause) {
      error = `the entities could not be counted: ${errorText(cause)}`;
    } finally {
      this.#running.delete(interval);
    }
    this.#dispatcher.emitPeriodic({ namespace: "entityCount", counts, error }, interval, this.#isTeller());
  }
}
