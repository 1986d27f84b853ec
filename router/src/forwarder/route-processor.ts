import { setTimeout as delay } from "node:timers/promises";
import { errorText } from "@sallyport/async";
import { boundedLog, DestinationType, type Logger, RouteErrorCode } from "@sallyport/wire";
import { type EgressBinding, EgressError, type RouteError } from "./egress.ts";
import type { ForwarderOptions } from "./options.ts";

/** A Route (1005) as the forwarder needs it; the decoded protobuf message fits (docs/protocol/data-path.md, "Routes"). */
export interface RouteRequest {
  readonly circuitId: string;
  readonly attempt: number;
  readonly egress?:
    | {
        readonly binding: string;
        readonly address: string;
        readonly destination: string;
        readonly peerData: Readonly<Record<number, Uint8Array>>;
      }
    | undefined;
  readonly forwards: readonly { readonly srcAddress: string; readonly dstAddress: string; readonly dstType: number }[];
  /** Nanoseconds the controller will wait, from arrival. */
  readonly timeout: bigint;
  readonly tags: Readonly<Record<string, string>>;
}

/** Outcome of a Route, as its RouteResult (1022) says it. */
export interface RouteResult {
  readonly ok: boolean;
  readonly errorCode?: RouteError;
  readonly error?: string;
  readonly peerData: Map<number, Buffer>;
}

interface RouteTables {
  readonly options: ForwarderOptions;
  readonly log: Logger;
  binding(name: string): EgressBinding | undefined;
  isRegistered(address: string): boolean;
  hasLink(id: string): boolean;
  hasCircuit(id: string): boolean;
  linkUnknown(id: string): void;
  apply(route: RouteRequest, controllerId: string): void;
  discard(address: string): void;
}

/** A timeout beyond this is a controller's underflow; the dial then gets this long. */
const MAX_DIAL_MS = 60_000;
const NO_PEER_DATA: Map<number, Buffer> = new Map();

/** The workers that dial the egress of routes. */
export interface Dialers {
  /** Dials that wait for one of them. */
  readonly waiting: number;
  readonly workers: number;
  readonly busy: number;
  /** Called with the time that each dial took, in milliseconds. */
  onDialed: (ms: number) => void;
}

/** Executes Routes: dials the egress when there is one to dial, then enters the forwards. */
export class RouteProcessor implements Dialers {
  onDialed: (ms: number) => void = () => {};
  readonly #tables: RouteTables;
  readonly #log: Logger;
  readonly #running = new Map<string, Set<AbortController>>();
  readonly #queue: (() => void)[] = [];
  #busy = 0;

  constructor(tables: RouteTables) {
    this.#tables = tables;
    this.#log = boundedLog(tables.log);
  }

  get waiting(): number {
    return this.#queue.length;
  }

  get workers(): number {
    return this.#tables.options.xgressDialWorkerCount;
  }

  get busy(): number {
    return this.#busy;
  }

  async route(route: RouteRequest, controllerId: string): Promise<RouteResult> {
    const egress = route.egress;
    if (egress === undefined && route.forwards.length === 0 && !this.#tables.hasCircuit(route.circuitId)) {
      return failure(RouteErrorCode.Generic, `no circuit ${route.circuitId} here whose controller could change`);
    }
    if (egress === undefined || this.#tables.isRegistered(egress.address)) {
      return this.#enter(route, controllerId, NO_PEER_DATA);
    }
    const { xgressDialWorkerCount, xgressDialQueueLength } = this.#tables.options;
    if (this.#busy >= xgressDialWorkerCount && this.#queue.length >= xgressDialQueueLength) {
      const text = `the router has ${this.#queue.length} dials waiting (forwarder.xgressDialQueueLength); try another router`;
      return failure(RouteErrorCode.Generic, text);
    }
    const deadline = performance.now() + Math.min(Number(route.timeout / 1_000_000n), MAX_DIAL_MS);
    const abort = new AbortController();
    this.#track(route.circuitId, abort);
    await this.#worker();
    const started = performance.now();
    try {
      abort.signal.throwIfAborted();
      const peerData = await this.#dial(route, egress, controllerId, deadline, abort.signal);
      const outcome = abort.signal.aborted
        ? failure(RouteErrorCode.Generic, "the circuit was unrouted while it was dialed")
        : this.#enter(route, controllerId, peerData);
      if (!outcome.ok) this.#tables.discard(egress.address);
      return outcome;
    } catch (error) {
      if (error instanceof EgressError) return failure(error.code, error.message);
      this.#log.error({ circuitId: route.circuitId, err: error }, "egress dial failed unexpectedly");
      return failure(RouteErrorCode.Generic, errorText(error));
    } finally {
      this.onDialed(performance.now() - started);
      this.#untrack(route.circuitId, abort);
      this.#workerDone();
    }
  }

  /** Aborts the dials that run or wait for a circuit. */
  cancel(circuitId: string): void {
    for (const abort of this.#running.get(circuitId) ?? []) {
      abort.abort(new EgressError(RouteErrorCode.Generic, "the circuit was unrouted while it was dialed"));
    }
  }

  close(): void {
    for (const circuitId of [...this.#running.keys()]) this.cancel(circuitId);
  }

  async #dial(
    route: RouteRequest,
    egress: NonNullable<RouteRequest["egress"]>,
    controllerId: string,
    deadline: number,
    signal: AbortSignal,
  ): Promise<Map<number, Buffer>> {
    const binding = this.#tables.binding(egress.binding);
    if (binding === undefined) {
      const text = `the router has no dialer for binding ${egress.binding}`;
      const remedy = "add it to dialers in its configuration, or change the terminator";
      throw new EgressError(RouteErrorCode.MisconfiguredTerminator, `${text}; ${remedy}`);
    }
    const dwell = this.#tables.options.xgressDialDwellTimeMs;
    if (dwell > 0) await delay(dwell, undefined, { signal }).catch(() => signal.throwIfAborted());
    const peerData = new Map<number, Buffer>();
    for (const [key, value] of Object.entries(egress.peerData)) peerData.set(Number(key), Buffer.from(value));
    return binding.dial({
      circuitId: route.circuitId,
      controllerId,
      address: egress.address,
      destination: egress.destination,
      peerData,
      tags: route.tags,
      timeoutMs: Math.max(1, Math.round(deadline - performance.now())),
      signal,
    });
  }

  #enter(route: RouteRequest, controllerId: string, peerData: Map<number, Buffer>): RouteResult {
    for (const forward of route.forwards) {
      if (forward.dstType === DestinationType.Link && !this.#tables.hasLink(forward.dstAddress)) {
        this.#tables.linkUnknown(forward.dstAddress);
        return failure(RouteErrorCode.Generic, `invalid link destination ${forward.dstAddress}: no such link here`);
      }
      if (forward.dstType === DestinationType.End && !this.#tables.isRegistered(forward.dstAddress)) {
        return failure(RouteErrorCode.Generic, `invalid egress destination ${forward.dstAddress}: no such xgress here`);
      }
    }
    this.#tables.apply(route, controllerId);
    return { ok: true, peerData };
  }

  async #worker(): Promise<void> {
    if (this.#busy >= this.#tables.options.xgressDialWorkerCount) {
      await new Promise<void>((resolve) => this.#queue.push(resolve));
    } else {
      this.#busy++;
    }
  }

  /** Hands the worker to the Route that has waited longest; one that arrives in between must not take it. */
  #workerDone(): void {
    const next = this.#queue.shift();
    if (next === undefined) this.#busy--;
    else next();
  }

  #track(circuitId: string, abort: AbortController): void {
    const running = this.#running.get(circuitId) ?? new Set();
    this.#running.set(circuitId, running.add(abort));
  }

  #untrack(circuitId: string, abort: AbortController): void {
    const running = this.#running.get(circuitId);
    running?.delete(abort);
    if (running?.size === 0) this.#running.delete(circuitId);
  }
}

function failure(errorCode: RouteError, error: string): RouteResult {
  return { ok: false, errorCode, error, peerData: new Map() };
}
