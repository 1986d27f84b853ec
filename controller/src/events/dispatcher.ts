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

/** Which events an output gets: those that this controller tells, or also those of the other controllers of the network. */
export type EventReach = "own" | "network";

interface Registration {
  readonly output: EventOutput;
  readonly subscription: Subscription;
  readonly reach: EventReach;
}

/** The other controllers that want events of this one. */
export interface EventForwarding {
  wants(namespace: EventNamespace): boolean;
  /** Neither waits nor throws. */
  forward(namespace: EventNamespace, json: string): void;
}

/** All events pass here: sources emit, outputs get what they subscribed to, as JSON. Source: docs/events.md. */
export class Dispatcher implements EventSink {
  readonly #sourceId: string;
  readonly #now: () => Date;
  readonly #log: Logger;
  readonly #byNamespace = new Map<EventNamespace, Registration[]>();
  #forwarding: EventForwarding | undefined;
  readonly #demandListeners = new Listeners((err) =>
    this.#log.error({ err }, "a source of events could not be started or stopped"),
  );

  constructor(options: { readonly sourceId: string; readonly now?: () => Date; readonly log: Logger }) {
    this.#sourceId = options.sourceId;
    this.#now = options.now ?? (() => new Date());
    this.#log = options.log;
  }

  wants(namespace: EventNamespace): boolean {
    return this.#byNamespace.has(namespace) || this.#forwarding?.wants(namespace) === true;
  }

  /** Gives events to other controllers, too, from now on. */
  forwardTo(forwarding: EventForwarding): void {
    this.#forwarding = forwarding;
  }

  /** What is wanted may be something else now. */
  demandChanged(): void {
    this.#demandListeners.emit();
  }

  /** Gives `output` events until the returned function is called. */
  subscribe(output: EventOutput, subscriptions: readonly Subscription[], reach: EventReach = "own"): () => void {
    const registrations = subscriptions.map((subscription) => ({ output, subscription, reach }));
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
    const { namespace } = body;
    const isWantedElsewhere = this.#forwarding?.wants(namespace) === true;
    if (!isWantedElsewhere && !this.#byNamespace.has(namespace)) return;
    const event = this.#complete(body);
    const whole = isWantedElsewhere ? JSON.stringify(event) : undefined;
    this.#deliver(event, () => true, whole);
    if (whole !== undefined) this.#forwarding?.forward(namespace, whole);
  }

  /**
   * To the subscriptions with exactly this interval.
   * @param isToldHere is it this controller that tells the network's? Otherwise only those get it that want the events of all controllers.
   */
  emitPeriodic(body: EventBody, intervalMs: number, isToldHere = true): void {
    if (!this.#byNamespace.has(body.namespace)) return;
    const isFor = ({ subscription, reach }: Registration) =>
      subscription.intervalMs === intervalMs && (isToldHere || reach === "network");
    this.#deliver(this.#complete(body), isFor);
  }

  /** An event that another controller tells. */
  receive(event: ControllerEvent): void {
    this.#deliver(event, ({ reach }) => reach === "network");
  }

  /** @param whole the event as JSON, if that was made */
  #deliver(event: ControllerEvent, isFor: (registration: Registration) => boolean, whole?: string): void {
    for (const registration of this.#byNamespace.get(event.namespace) ?? []) {
      if (!isFor(registration)) continue;
      const { output, subscription } = registration;
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
