import {
  FRAME_PREFIX_LENGTH,
  type FrameView,
  PayloadTemplate,
  type Underlay,
  type Waiter,
  type XgressEnd,
  XgressFlag,
  type XgressPath,
  XgressType,
} from "@sallyport/wire";
import type { Circuit, Destination, Forward } from "./circuit.ts";

/** Where a circuit leaves the fabric on this router: an xgress, or an SDK that has its xgress itself. */
export interface LocalEnd extends Omit<XgressEnd, "kind" | keyof Destination>, Destination {
  readonly kind: "xgress" | "sdk";
}

/** An end, as its path has to know it. */
type EndName = Pick<LocalEnd, "circuitId" | "address" | "side">;

/** What a path needs of the forwarder. */
export interface PathTables {
  circuit(id: string): Circuit | undefined;
  resolve(forward: Forward): Destination | undefined;
  fault(circuitId: string): void;
  /** An acknowledgement had no way to go. */
  ackFailed(): void;
  now(): number;
}

/** The way from a local xgress into the fabric: wherever the circuit's forward leads at the moment. */
export class EndPath implements XgressPath {
  readonly #tables: PathTables;
  readonly #end: EndName;
  readonly #closed: (report: boolean) => void;
  #circuit: Circuit | undefined;
  #forward: Forward | undefined;

  /** @param closed called when the end goes away; `report`: its owner is to learn it */
  constructor(tables: PathTables, end: EndName, closed: (report: boolean) => void) {
    this.#tables = tables;
    this.#end = end;
    this.#closed = closed;
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
  /** @param from the connection it was read from, when it may have to wait for room */
  payload(frame: FrameView, flags: number, from?: Underlay): void {
    const destination = this.#destination();
    if (destination === undefined) {
      this.#tables.fault(this.#end.circuitId);
      return;
    }
    const forward = this.#forward as Forward;
    forward.circuit.lastActivity = this.#tables.now();
    if ((flags & XgressFlag.Retransmit) === 0) {
      forward.payloads++;
      forward.bytes += frame.end - frame.bodyStart;
    }
    destination.payload(frame, forward, flags, from);
  }

  report(): false {
    if (this.#destination() === undefined) this.#tables.fault(this.#end.circuitId);
    return false;
  }

  /** Sends a retransmission, which is no sign of activity; the caller has looked at {@link isOpen}. */
  retransmit(frame: FrameView, flags: number, from?: Underlay): void {
    this.#destination()?.payload(frame, this.#forward as Forward, flags, from);
  }

  ack(frame: FrameView): void {
    const destination = this.#destination();
    if (destination === undefined) {
      this.#tables.ackFailed();
      return;
    }
    const forward = this.#forward as Forward;
    forward.circuit.lastActivity = this.#tables.now();
    destination.ack(frame, forward);
  }

  control(frame: FrameView): void {
    this.#destination()?.control(frame, this.#forward as Forward);
  }

  /**
   * Closes the path of an end that went away without a word, and says along it what such an end would have said last: it takes
   * nothing more, and nothing more comes from it. Sent once: where a payload before it was lost, the circuit's owner has to end the circuit.
   *
   * @param next the sequence after that of the end's last payload
   */
  end(next: number): void {
    const { circuitId, side } = this.#end;
    const flags = XgressFlag.CircuitEnd | (side === "terminator" ? XgressFlag.Terminator : 0);
    const first = flags | XgressFlag.WriteFailed;
    // The first mark may be taken for a half close.
    this.retransmit(markOf(circuitId, next, first), first);
    this.retransmit(markOf(circuitId, (next + 1) | 0, flags), flags);
    this.close(true);
  }

  close(report: boolean): void {
    this.#closed(report);
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

function markOf(circuitId: string, sequence: number, flags: number): FrameView {
  const template = new PayloadTemplate(circuitId);
  const buffer = Buffer.alloc(template.byteLength(flags));
  const end = template.write(buffer, 0, 0, sequence, flags, 0, 0);
  return {
    ...{ buffer, start: 0, contentType: XgressType.Payload, sequence: 0, carriesHeartbeat: false },
    ...{ headersStart: FRAME_PREFIX_LENGTH, headersEnd: end, bodyStart: end, end },
  };
}

/** Whether a destination is an xgress on this router, and no link. */
export function isLocalEnd(destination: Destination): destination is LocalEnd {
  return destination.kind !== "link";
}

/** Whether none of the ends received anything for `quietMs`, counted from `since` at the earliest. */
export function areQuiet(ends: Iterable<LocalEnd>, quietMs: number, since: number, now: number): boolean {
  for (const end of ends) if (now - Math.max(end.lastReceived, since) < quietMs) return false;
  return true;
}

/** Details of a circuit for inspection (docs/protocol/control.md, "Inspect"). Durations are texts with a unit. */
export function circuitDetail(circuit: Circuit, ends: Iterable<LocalEnd>): Record<string, unknown> {
  return {
    circuitId: circuit.id,
    ctrlId: circuit.controllerId,
    timeSinceActivity: `${Math.round(performance.now() - circuit.lastActivity)}ms`,
    forwards: Object.fromEntries(circuit.forwards.map((f) => [f.source, f.target])),
    xgressDetails: Object.fromEntries([...ends].map((end) => [end.address, end.inspect()])),
    relatedEntities: {},
    errors: null,
  };
}
