import {
  CircuitFrame,
  EdgeHeader,
  type FrameView,
  Headers,
  type Message,
  type Underlay,
  XgressFlag,
  XgressType,
} from "@sallyport/wire";
import { type TransitRoom, TransitShare } from "../../forwarder/transit-queue.ts";
import type { SdkCircuit } from "./sdk-circuit.ts";

/** Of an SDK that reads slowly or not at all. */
const MAX_WAITING = 16 * 1024 * 1024;
/** What became of a frame: `late` and `lost` ones are of circuits that are not, or no longer, this SDK's. */
export type FrameOutcome = "taken" | "late" | "lost" | "malformed";

/** Traces need a few hundred bytes. */
const MAX_CONTROL_HEADERS = 4_096;

/**
 * The circuits of one SDK whose flow control it does itself. What it sends is matched by circuit id and side, since not
 * everything carries a connection id; it reaches no circuit but its own (docs/protocol/edge.md "Flow control by the SDK").
 */
export class SdkCircuits {
  /** The frame at hand; reused. */
  readonly view = new CircuitFrame();
  /** What all of them together may have waiting. */
  #room: TransitShare | undefined;
  /** One SDK may be at both ends of a circuit. */
  readonly #initiating = new Map<string, SdkCircuit>();
  readonly #terminating = new Map<string, SdkCircuit>();

  /** Their share of the router's memory for payloads that wait. */
  roomOf(budget: TransitRoom): TransitRoom {
    this.#room ??= new TransitShare(budget, MAX_WAITING);
    return this.#room;
  }

  add(circuit: SdkCircuit): void {
    this.#of(circuit).set(circuit.circuitId, circuit);
  }

  delete(circuit: SdkCircuit): void {
    const circuits = this.#of(circuit);
    if (circuits.get(circuit.circuitId) === circuit) circuits.delete(circuit.circuitId);
  }

  /** Takes a payload or acknowledgement. Of a malformed one `view.connId` may say whose it was. */
  frame(frame: FrameView, from: Underlay): FrameOutcome {
    const view = this.view;
    if (!view.take(frame)) return "malformed";
    if (view.contentType === XgressType.Acknowledgement && (view.end - view.bodyStart) % 4 !== 0) return "malformed";
    const circuits = view.isFromTerminator ? this.#terminating : this.#initiating;
    const circuit = circuits.get(view.circuitId());
    if (circuit === undefined) return isLoss(view) ? "lost" : "late";
    circuit.fromSdk(view, from);
    return "taken";
  }

  /** A control message: its body is one byte and the circuit id. */
  control(message: Message): void {
    const { body } = message;
    // Routers on the way add to it, and a frame with too many headers ends the link that it comes by.
    if (body.length < 2 || message.headers.byteLength > MAX_CONTROL_HEADERS) return;
    const circuit = this.#find(body.toString("latin1", 1), message);
    if (circuit === undefined) return;
    const headers = new Headers();
    for (const [key, value] of message.headers.entries()) if (key !== EdgeHeader.ConnId) headers.set(key, value);
    circuit.controlFromSdk({ kind: body[0] as number, circuitId: circuit.circuitId, headers });
  }

  /** The SDK has ended a circuit: its body is the circuit id. */
  close(message: Message): void {
    this.#find(message.body.toString("latin1"), message)?.closedBySdk();
  }

  #find(circuitId: string, message: Message): SdkCircuit | undefined {
    const connId = message.headers.getU32(EdgeHeader.ConnId);
    const ends = [this.#initiating.get(circuitId), this.#terminating.get(circuitId)];
    return ends.find((end) => end?.connId === connId) ?? ends.find((end) => end !== undefined);
  }

  #of(circuit: SdkCircuit): Map<string, SdkCircuit> {
    return circuit.side === "initiator" ? this.#initiating : this.#terminating;
  }
}

/**
 * Whether data is lost with a frame of an unknown circuit. An SDK with several connections sends its retransmissions and
 * the mark of a circuit's end on any of them, so these may arrive after the circuit has ended.
 */
function isLoss(frame: CircuitFrame): boolean {
  if (frame.contentType === XgressType.Acknowledgement) return true;
  if ((frame.flags & XgressFlag.Retransmit) !== 0) return false;
  return (frame.flags & XgressFlag.CircuitEnd) === 0 || frame.end > frame.bodyStart;
}
