import { pause } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { z } from "zod";
import type { Dispatcher } from "../events/dispatcher.ts";
import { type ControllerEvent, EVENT_NAMESPACES, type EventNamespace } from "../events/event.ts";
import type { Asker } from "./calling-replicas.ts";
import type { Call } from "./calls.ts";
import type { ReplicaCalls } from "./replica-calls.ts";

/** The name of what is told to those that want events. */
const EVENT = "event";
/** Bytes that may wait for another controller; events beyond are dropped. */
const MAX_QUEUED = 8 * 1024 * 1024;
const LOG_EVERY_MS = 10_000;
const ASK_AGAIN_MS = 1_500;
const MAX_TRIES = 10;

/** Which events the asker wants from now on, in place of those before. */
const WANTED: Call<{ namespaces: string[] }, boolean> = {
  name: "events",
  question: z.object({ namespaces: z.array(z.string()) }),
  answer: z.boolean(),
};

/** Events of all controllers for the streams of this one: the others are asked for what is wanted here, and get what they ask for. */
export class NetworkEvents {
  readonly #calls: ReplicaCalls;
  readonly #dispatcher: Dispatcher;
  readonly #log: Logger;
  /** How many streams here want events of a namespace. */
  readonly #wanted = new Map<EventNamespace, number>();
  readonly #askers = new Map<Asker, ReadonlySet<string>>();
  #dropped = 0;
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(calls: ReplicaCalls, dispatcher: Dispatcher, log: Logger) {
    this.#calls = calls;
    this.#dispatcher = dispatcher;
    this.#log = log;
    calls.serve(WANTED, async ({ namespaces }, asker) => {
      if (!this.#askers.has(asker)) asker.onClose(() => this.#gone(asker));
      this.#askers.set(asker, new Set(namespaces));
      dispatcher.demandChanged();
      return { value: true, items: [] };
    });
    calls.onNotice(EVENT, (json) => this.#received(json));
    calls.onConnected((replicaId) => {
      if (this.#wanted.size > 0) void this.#ask(replicaId);
    });
    calls.keepConnected(() => this.#wanted.size > 0);
    dispatcher.forwardTo({
      wants: (namespace) => this.#askers.values().some((wanted) => wanted.has(namespace)),
      forward: (namespace, json) => this.#forward(namespace, json),
    });
  }

  /** Has the others tell their events of these namespaces. Resolves when they do, or after the time limit of a call. @returns ends it */
  async want(namespaces: readonly EventNamespace[]): Promise<() => void> {
    const distinct = [...new Set(namespaces)];
    for (const namespace of distinct) this.#wanted.set(namespace, (this.#wanted.get(namespace) ?? 0) + 1);
    await this.#announce();
    let isEnded = false;
    return () => {
      if (isEnded) return;
      isEnded = true;
      for (const namespace of distinct) {
        const left = (this.#wanted.get(namespace) ?? 0) - 1;
        if (left > 0) this.#wanted.set(namespace, left);
        else this.#wanted.delete(namespace);
      }
      void this.#announce();
    };
  }

  async #announce(): Promise<void> {
    this.#calls.look();
    const { silent } = await this.#calls.askAll(WANTED, { namespaces: [...this.#wanted.keys()] });
    for (const replicaId of silent) void this.#ask(replicaId);
  }

  /** Asks a replica that may be busy some times more. Afterwards it is asked with its next channel. */
  async #ask(replicaId: string): Promise<void> {
    for (let tries = 0; tries < MAX_TRIES && this.#wanted.size > 0; tries++) {
      try {
        await this.#calls.ask(replicaId, WANTED, { namespaces: [...this.#wanted.keys()] });
        return;
      } catch {
        await pause(ASK_AGAIN_MS);
      }
    }
  }

  #gone(asker: Asker): void {
    this.#askers.delete(asker);
    this.#dispatcher.demandChanged();
  }

  #forward(namespace: EventNamespace, json: string): void {
    for (const [asker, wanted] of this.#askers) {
      if (!wanted.has(namespace)) continue;
      if (asker.queuedBytes > MAX_QUEUED) this.#drop(asker);
      else asker.notify(EVENT, json);
    }
  }

  #drop({ id }: Asker): void {
    this.#dropped += 1;
    const now = performance.now();
    if (now - this.#loggedAt < LOG_EVERY_MS) return;
    this.#loggedAt = now;
    this.#log.warn({ replica: id, dropped: this.#dropped }, "another controller reads too slowly: events are dropped");
  }

  #received(json: string): void {
    const event = JSON.parse(json) as ControllerEvent;
    if (EVENT_NAMESPACES.includes(event.namespace)) this.#dispatcher.receive(event);
  }
}
