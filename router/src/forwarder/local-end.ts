import type { FrameView, Waiter, XgressEnd, XgressPath } from "@sallyport/wire";
import type { Circuit, Destination, Forward } from "./circuit.ts";

/** An xgress of this router, as the forwarder sees it: the end of a circuit, and a destination like a link. */
export type LocalEnd = XgressEnd & Destination;

/** What a path needs of the forwarder. */
export interface PathTables {
  circuit(id: string): Circuit | undefined;
  resolve(forward: Forward): Destination | undefined;
  fault(circuitId: string): void;
  closed(end: LocalEnd, report: boolean): void;
  now(): number;
}

/** The way from a local xgress into the fabric: wherever the circuit's forward leads at the moment. */
export class Path implements XgressPath {
  readonly #tables: PathTables;
  readonly #end: LocalEnd;
  #circuit: Circuit | undefined;
  #forward: Forward | undefined;

  constructor(tables: PathTables, end: LocalEnd) {
    this.#tables = tables;
    this.#end = end;
  }

  get isOpen(): boolean {
    const destination = this.#destination();
    if (destination === undefined) return false;
    if (destination.kind === "xgress") return true;
    const output = destination.outputFor(this.#forward as Forward);
    return output !== undefined && !output.isFull;
  }

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
