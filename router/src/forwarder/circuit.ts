import type { FrameView, Underlay, Waiter } from "@sallyport/wire";
import type { CountedOutput } from "./counted-output.ts";

/** Where the frames of a circuit can go: a link to another router, an xgress of this one, or an SDK that has its xgress itself. */
export interface Destination {
  /** Link id or xgress address. */
  readonly address: string;
  /** What it is, for inspection. */
  readonly kind: "link" | "xgress" | "sdk";
  /** Set when it was removed; cached references look it up again by address. */
  gone: boolean;
  /** A payload (1100). `frame` is valid during the call only. `from`: the underlay it was read from. */
  payload(frame: FrameView, forward: Forward, flags: number, from?: Underlay): void;
  /** An acknowledgement (1101): never held back. */
  ack(frame: FrameView, forward: Forward): void;
  /** A control message (1102). */
  control(frame: FrameView, forward: Forward): void;
  /** The output a payload of this circuit would go to; `undefined` when it can always take one. */
  outputFor(forward: Forward): CountedOutput | undefined;
}

/** Payloads of one direction of a transit circuit that wait for room (see transit-queue.ts). */
export interface HeldPayloads extends Waiter {
  readonly count: number;
  /** Makes sure that they leave by `output` as soon as there is room. */
  waitFor(output: CountedOutput): void;
  clear(): void;
}

/** One direction of a circuit: what comes from `source` goes to `target`. */
export class Forward {
  readonly circuit: Circuit;
  readonly source: string;
  target: string;
  /** Cache of the destination table's entry for `target`. */
  destination: Destination | undefined;
  /** Cache of the destination's choice of a connection. */
  output: CountedOutput | undefined;
  held: HeldPayloads | undefined;
  /** Payloads that went this way for the first time, and their bytes of data. */
  payloads = 0;
  bytes = 0;
  /** How many of the bytes reports of usage have counted. */
  bytesReported = 0;
  /** What `target` is, as the route said (`DestinationType`). */
  leadsTo = -1;

  constructor(circuit: Circuit, source: string, target: string) {
    this.circuit = circuit;
    this.source = source;
    this.target = target;
  }

  /** Points this direction elsewhere; what was held for the old target is left to retransmission. */
  redirect(target: string): void {
    if (this.target === target) return;
    this.target = target;
    this.letGo();
  }

  /** Forgets the connection it led to, and what was held for it. Of a circuit that ended, reports keep the rest for a while. */
  letGo(): void {
    this.destination = undefined;
    this.output = undefined;
    this.held?.clear();
  }
}

/** A circuit as this router knows it: its owner and the way of each direction. */
export class Circuit {
  readonly id: string;
  /** The controller that routed it last: faults and confirmations go there. */
  controllerId: string;
  /** Pins the circuit to one underlay of a link. */
  readonly key: number;
  /** Milliseconds of `performance.now()` when a frame of it was last forwarded. */
  lastActivity: number;
  /** A local end has closed: stray frames are expected and no fault. */
  ended = false;
  readonly forwards: Forward[] = [];
  /** What the controller wants to see again in reports of its usage. */
  readonly tags: Readonly<Record<string, string>>;

  constructor(id: string, controllerId: string, now: number, tags: Readonly<Record<string, string>> = {}) {
    this.id = id;
    this.controllerId = controllerId;
    this.lastActivity = now;
    this.tags = tags;
    this.key = keyOf(id);
  }

  /** The direction that starts at `source`. At most a handful exist: two, and stale ones of reroutes. */
  from(source: string): Forward | undefined {
    for (const forward of this.forwards) if (forward.source === source) return forward;
    return undefined;
  }

  /** Adds or redirects a direction. */
  route(source: string, target: string): Forward {
    const known = this.from(source);
    if (known !== undefined) {
      known.redirect(target);
      return known;
    }
    const forward = new Forward(this, source, target);
    this.forwards.push(forward);
    return forward;
  }
}

/** Circuits of one controller that were idle, for a confirmation (docs/protocol/data-path.md, "Idle circuits"). */
export interface IdleCircuits {
  readonly controllerId: string;
  /** Milliseconds without a frame, by circuit id. */
  readonly idle: ReadonlyMap<string, number>;
}

/** The circuits that had no frame for longer than `timeoutMs`, by their controllers. */
export function idleCircuits(circuits: Iterable<Circuit>, timeoutMs: number, now: number): IdleCircuits[] {
  const byController = new Map<string, Map<string, number>>();
  for (const circuit of circuits) {
    const idle = now - circuit.lastActivity;
    if (idle <= timeoutMs) continue;
    const ids = byController.get(circuit.controllerId) ?? new Map<string, number>();
    byController.set(circuit.controllerId, ids.set(circuit.id, idle));
  }
  return [...byController].map(([controllerId, idle]) => ({ controllerId, idle }));
}

function keyOf(id: string): number {
  let hash = 0;
  for (let i = 0; i < id.length; i++) hash = (Math.imul(hash, 31) + id.charCodeAt(i)) | 0;
  return hash >>> 0;
}
