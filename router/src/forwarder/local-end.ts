import type { FrameView } from "@sallyport/wire";
import type { Circuit, Destination, Forward } from "./circuit.ts";
import type { Waiter } from "./fair-output.ts";

/** Which end of the circuit an xgress is. */
export type Side = "initiator" | "terminator";

/** An xgress of this router, as the forwarder sees it. */
export interface LocalEnd extends Destination {
  readonly kind: "xgress";
  readonly circuitId: string;
  readonly side: Side;
  /** `Date.now()` of the last payload that arrived from the fabric. */
  readonly lastReceived: number;
  /** The circuit was unrouted: close without a word to the other end. */
  unrouted(): void;
  /** The circuit's way changed: what waited for a destination may try again. */
  rerouted(): void;
  /** For inspection: what the wire's inspection calls the details of an xgress. */
  inspect(): Record<string, unknown>;
}

/** What a path needs of the forwarder. */
export interface PathTables {
  circuit(id: string): Circuit | undefined;
  resolve(forward: Forward): Destination | undefined;
  fault(circuitId: string): void;
  closed(end: LocalEnd, report: boolean): void;
  now(): number;
}

/** The way from a local xgress into the fabric. */
export class Path {
  readonly #tables: PathTables;
  readonly #end: LocalEnd;
  #circuit: Circuit | undefined;
  #forward: Forward | undefined;

  constructor(tables: PathTables, end: LocalEnd) {
    this.#tables = tables;
    this.#end = end;
  }

  /** True when a payload can be sent now; otherwise call {@link wait}. */
  get isOpen(): boolean {
    const destination = this.#destination();
    if (destination === undefined) return false;
    if (destination.kind === "xgress") return true;
    const output = destination.outputFor(this.#forward as Forward);
    return output !== undefined && !output.isFull;
  }

  /** Asks for a turn when there is room. Without a destination nothing is promised but `rerouted` when one comes. */
  wait(waiter: Waiter): void {
    const destination = this.#destination();
    if (destination === undefined) return;
    destination.outputFor(this.#forward as Forward)?.wait(waiter);
  }

  /** Sends a payload; without a destination it is reported as a forwarding fault and left to retransmission. */
  payload(frame: FrameView, flags: number): void {
    const destination = this.#destination();
    if (destination === undefined) {
      this.#tables.fault(this.#end.circuitId);
      return;
    }
    const forward = this.#forward as Forward;
    forward.circuit.lastActivity = this.#tables.now();
    destination.payload(frame, forward, flags);
  }

  /** Reports that there is no way for the circuit, when that is why the path is not open. Always false. */
  report(): false {
    if (this.#destination() === undefined) this.#tables.fault(this.#end.circuitId);
    return false;
  }

  /** Sends a retransmission, which is no sign of activity; the caller has looked at {@link isOpen}. */
  retransmit(frame: FrameView, flags: number): void {
    this.#destination()?.payload(frame, this.#forward as Forward, flags);
  }

  ack(frame: FrameView): void {
    const destination = this.#destination();
    if (destination === undefined) return;
    const forward = this.#forward as Forward;
    forward.circuit.lastActivity = this.#tables.now();
    destination.ack(frame, forward);
  }

  control(frame: FrameView): void {
    this.#destination()?.control(frame, this.#forward as Forward);
  }

  /** Takes the end out of the forwarder: the circuit has ended here, and with `report` its owner is told. */
  close(report: boolean): void {
    this.#tables.closed(this.#end, report);
  }

  #destination(): Destination | undefined {
    const forward = this.#forward ?? this.#find();
    if (forward === undefined) return undefined;
    const known = forward.destination;
    if (known !== undefined && !known.gone) return known;
    return this.#tables.resolve(forward);
  }

  #find(): Forward | undefined {
    this.#circuit ??= this.#tables.circuit(this.#end.circuitId);
    this.#forward = this.#circuit?.from(this.#end.address);
    return this.#forward;
  }
}
