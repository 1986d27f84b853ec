import { Listeners } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { ControllerEvent, EventBody, EventNamespace, EventSink } from "./event.ts";
import type { Subscription } from "./subscription.ts";

/** Where events go. `write` neither waits nor throws: an output that cannot keep up drops what it has no room for, and counts it. */
export interface EventOutput {
  readonly name: string;
  /** One event as JSON text, without a line feed. */
  write(namespace: string, json: string): void;
}

interface Registration {
  readonly output: EventOutput;
  readonly subscription: Subscription;
}

/** All events pass here: sources emit, outputs get what they subscribed to, as JSON. Source: docs/events.md. */
export class Dispatcher implements EventSink {
  readonly #sourceId: string;
  readonly #now: () => Date;
  readonly #log: Logger;
  readonly #byNamespace = new Map<EventNamespace, Registration[]>();
  readonly #demandListeners = new Listeners((err) =>
    this.#log.error({ err }, "a source of events could not be started or stopped"),
  );

  constructor(options: { readonly sourceId: string; readonly now?: () => Date; readonly log: Logger }) {
    this.#sourceId = options.sourceId;
    this.#now = options.now ?? (() => new Date());
    this.#log = options.log;
  }

  wants(namespace: EventNamespace): boolean {
    return this.#byNamespace.has(namespace);
  }

  /** Gives `output` events until the returned function is called. */
  subscribe(output: EventOutput, subscriptions: readonly Subscription[]): () => void {
    const registrations = subscriptions.map((subscription) => ({ output, subscription }));
    for (const registration of registrations) {
      const { namespace } = registration.subscription;
      this.#byNamespace.set(namespace, [...(this.#byNamespace.get(namespace) ?? []), registration]);
    }
    this.#demandListeners.emit();
    return () => {
      for (const registration of registrations.splice(0)) {
        const { namespace } = registration.subscription;
        const left = this.#byNamespace.get(namespace)?.filter((other) => other !== registration) ?? [];
        if (left.length > 0) this.#byNamespace.set(namespace, left);
        else this.#byNamespace.delete(namespace);
      }
      this.#demandListeners.emit();
    };
  }

  /** Calls `listener` now and whenever subscriptions change: a source that costs something starts and stops by {@link wants}. */
  onDemand(listener: () => void): () => void {
    const remove = this.#demandListeners.add(listener);
    listener();
    return remove;
  }

  /** The different intervals that subscribers of a periodic kind asked for, in milliseconds. */
  intervals(namespace: EventNamespace): Set<number> {
    const intervals = (this.#byNamespace.get(namespace) ?? []).map(({ subscription }) => subscription.intervalMs);
    return new Set(intervals.filter((interval) => interval !== undefined));
  }

  emit(body: EventBody): void {
    this.#deliver(body, undefined);
  }

  /** To the subscriptions with exactly this interval. */
  emitPeriodic(body: EventBody, intervalMs: number): void {
    this.#deliver(body, intervalMs);
  }

  #deliver(body: EventBody, intervalMs: number | undefined): void {
    const registrations = this.#byNamespace.get(body.namespace);
    if (registrations === undefined) return;
    const event = this.#complete(body);
    let whole: string | undefined;
    for (const { output, subscription } of registrations) {
      if (intervalMs !== undefined && subscription.intervalMs !== intervalMs) continue;
      try {
        const shaped = subscription.shape(event);
        if (shaped === undefined) continue;
        if (shaped === event) {
          whole ??= JSON.stringify(event);
          output.write(event.namespace, whole);
        } else {
          output.write(event.namespace, JSON.stringify(shaped));
        }
      } catch (err) {
        this.#log.error({ namespace: event.namespace, output: output.name, err }, "an event could not be handed out");
      }
    }
  }

  #complete(body: EventBody): ControllerEvent {
    const { namespace, timestamp = this.#now().toISOString(), ...rest } = body;
    return { namespace, event_src_id: this.#sourceId, timestamp, ...rest } as ControllerEvent;
  }
}
