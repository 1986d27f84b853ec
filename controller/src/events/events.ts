import { isAbsolute, resolve } from "node:path";
import type { ControllerConfig, EventHandlerConfig } from "@sallyport/controller-config";
import type { Logger } from "@sallyport/wire";
import type { Kysely } from "kysely";
import type { ChangeLog } from "../store/changes/change-log.ts";
import type { Database } from "../store/schema.ts";
import { Dispatcher, type EventOutput } from "./dispatcher.ts";
import { FileOutput, StreamOutput } from "./outputs.ts";
import { ChangeSource } from "./sources/change-source.ts";
import { CountSource, ServiceCounters } from "./sources/counts.ts";
import { type FabricFacts, startFabricSource } from "./sources/fabric-source.ts";
import { LeaderChanges, type LeaderChangesParts } from "./sources/leader-changes.ts";
import { UsageTotals } from "./sources/router-reports.ts";
import { TerminatorSource } from "./sources/terminator-source.ts";
import { compileSubscription } from "./subscription.ts";

const BYTES_PER_MB = 1024 * 1024;

interface EventsParts {
  readonly controllerId: string;
  readonly config: ControllerConfig["events"];
  /** Folder that relative paths start from. */
  readonly folder: string;
  /** The time by which controllers agree, in milliseconds; of this machine unless given. */
  readonly now?: () => number;
  readonly log: Logger;
}

/** What events are made of; known once the controller's parts run. */
interface EventSources {
  readonly db: Kysely<Database>;
  readonly changes: Pick<ChangeLog, "subscribe" | "position">;
  /** This controller among those of the network; one that is alone when not given. */
  readonly replica?: LeaderChangesParts["replica"] & { readonly isShared: boolean };
  readonly fabric: FabricFacts & {
    routerState(id: string): object | undefined;
    dynamicCost(terminatorId: string): number;
  };
  /** Number of entities by collection. */
  readonly counts: () => Promise<Readonly<Record<string, number>>>;
}

type ClosableOutput = EventOutput & { close(): Promise<void> };

/** Events of a controller: the dispatcher with the outputs of its configuration. Source: docs/events.md. */
export class Events {
  readonly dispatcher: Dispatcher;
  /** Bytes that routers have carried, for the controller's metrics. */
  readonly usage = new UsageTotals();
  readonly #controllerId: string;
  readonly #now: () => number;
  readonly #log: Logger;
  readonly #outputs: readonly ClosableOutput[];
  readonly #stops: (() => Promise<void> | void)[] = [];

  constructor(parts: EventsParts) {
    this.#controllerId = parts.controllerId;
    const now = parts.now ?? Date.now;
    this.#now = now;
    this.#log = parts.log;
    this.dispatcher = new Dispatcher({ sourceId: parts.controllerId, now: () => new Date(now()), log: parts.log });
    this.#outputs = Object.entries(parts.config).map(([name, { handler, subscriptions }]) => {
      const output = outputOf(name, handler as EventHandlerConfig, parts);
      this.dispatcher.subscribe(output, subscriptions.map(compileSubscription));
      return output;
    });
  }

  /** Starts to emit events, until {@link close}. */
  connect(sources: EventSources): void {
    const { dispatcher } = this;
    const { db, fabric, replica } = sources;
    const isTeller = () => replica?.isLeader ?? true;
    const now = this.#now;
    const shared =
      replica?.isShared === true ? new LeaderChanges({ ...sources, replica, now, log: this.#log }) : undefined;
    const changes = shared ?? sources.changes;
    const terminators = new TerminatorSource({
      db,
      sink: dispatcher,
      isRouterOnline: (id) => fabric.routerState(id) !== undefined,
      dynamicCost: (id) => fabric.dynamicCost(id),
      log: this.#log,
    });
    const services = new ServiceCounters(dispatcher, now);
    const changeSource = new ChangeSource({ db, changes, dispatcher, terminators, log: this.#log });
    const counts = new CountSource(dispatcher, sources.counts, isTeller);
    this.#stops.push(
      fabric.onEvent((event) => {
        if (event.kind === "router-metrics") this.usage.add(event.metrics);
      }),
      startFabricSource({
        ...{ controllerId: this.#controllerId, fabric, sink: dispatcher, isTeller, services, terminators, now },
      }),
      () => services.stop(),
      () => counts.stop(),
      () => changeSource.stop(),
      () => shared?.close(),
      () => terminators.idle(),
    );
  }

  /** Stops the sources, and writes out what waits. */
  async close(): Promise<void> {
    for (const stop of this.#stops.splice(0)) await stop();
    await Promise.all(this.#outputs.map((output) => output.close()));
  }
}

function outputOf(name: string, handler: EventHandlerConfig, { folder, log }: EventsParts): ClosableOutput {
  const { bufferSize } = handler;
  if (handler.type === "stdout") {
    return new StreamOutput({ name: `events.${name} (stdout)`, stream: process.stdout, bufferSize, log });
  }
  return new FileOutput({
    path: isAbsolute(handler.path) ? handler.path : resolve(folder, handler.path),
    maxBytes: handler.maxsizemb * BYTES_PER_MB,
    maxBackups: handler.maxbackups,
    bufferSize,
    log,
  });
}
