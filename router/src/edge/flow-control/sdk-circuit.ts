import {
  ChannelClosedError,
  type CircuitFrame,
  type ControlMessage,
  controlFrame,
  EdgeHeader,
  type FrameView,
  type Headers,
  readControl,
  type Side,
  TraceHeader,
  type Underlay,
  writeCircuitFrame,
  XgressControl,
  XgressFlag,
  XgressType,
} from "@sallyport/wire";
import type { CountedOutput, LinkCounters } from "../../forwarder/counted-output.ts";
import type { Forwarder } from "../../forwarder/forwarder.ts";
import type { EndPath, LocalEnd } from "../../forwarder/local-end.ts";
import { OutputDestination } from "../../forwarder/output-destination.ts";
import type { CircuitCarrier } from "../channel-members.ts";
import { type Denial, stateClosed, UNROUTED } from "../edge-messages.ts";
import type { Grant } from "../sdk-session.ts";
import { answerAtEdge, traceRequestToSdk, traceResponseToSdk } from "../trace-route.ts";

/** An SDK that takes nothing at all for long gets no more acknowledgements, and no traces. */
const MAX_ACK_BACKLOG = 8 * 1024 * 1024;

export interface SdkCircuitParts
  extends Pick<SdkCircuit, "sdk" | "connId" | "grant" | "circuitId" | "address" | "side" | "carriesDatagrams"> {
  readonly forwarder: Forwarder;
}

/**
 * The end of a circuit whose flow control is done by the SDK: this router only carries payloads and acknowledgements
 * between its channel and the fabric, as between two links (docs/protocol/edge.md "Flow control by the SDK").
 */
export class SdkCircuit extends OutputDestination implements LocalEnd {
  readonly kind = "sdk" as const;
  readonly sdk: CircuitCarrier;
  readonly connId: number;
  readonly grant: Grant;
  readonly circuitId: string;
  /** Given by the controller; the SDK is told. */
  readonly address: string;
  readonly side: Side;
  /** What the dialling end says of it. */
  readonly carriesDatagrams: boolean;
  lastReceived = performance.now();
  readonly #path: EndPath;
  /** After the highest sequence of the SDK's payloads, and the flags of that one. */
  #nextSequence = 0;
  #lastFlags = 0;
  #ended = false;

  constructor(parts: SdkCircuitParts) {
    const { pool, budget } = parts.forwarder;
    super({ pool, budget: parts.sdk.roomOf(budget) });
    this.sdk = parts.sdk;
    this.connId = parts.connId;
    this.grant = parts.grant;
    this.circuitId = parts.circuitId;
    this.address = parts.address;
    this.side = parts.side;
    this.carriesDatagrams = parts.carriesDatagrams;
    this.#path = parts.forwarder.register(this);
  }

  get counters(): LinkCounters {
    return this.sdk.counters;
  }

  // From the SDK ------------------------------------------------------------------------------------------------------

  /** A payload or acknowledgement of this circuit, read from `from`. */
  fromSdk(frame: CircuitFrame, from: Underlay): void {
    if (this.#ended) return;
    if (frame.contentType === XgressType.Acknowledgement) {
      this.#path.ack(frame);
      return;
    }
    if (((frame.payloadSequence - this.#nextSequence) | 0) >= 0) {
      this.#nextSequence = (frame.payloadSequence + 1) | 0;
      this.#lastFlags = frame.flags;
    }
    if ((frame.flags & XgressFlag.Retransmit) !== 0) this.#path.retransmit(frame, frame.flags, from);
    else this.#path.payload(frame, frame.flags, from);
  }

  /** A control message of this circuit: this router is one hop of a trace route. */
  controlFromSdk(message: ControlMessage): void {
    if (message.kind === XgressControl.TraceRoute) {
      const hops = message.headers.getU32(TraceHeader.HopCount) ?? 0;
      if (hops <= 1) return;
      message.headers.setU32(TraceHeader.HopCount, hops - 1);
    }
    this.sendControl(message);
  }

  sendControl(message: ControlMessage): void {
    this.#path.control(controlFrame(message));
  }

  /** Data messages belong to connections without flow control; they are dropped here. */
  data(): void {}

  /** It has said so to the other end, too, unless that was lost or comes behind this on another connection. */
  closedBySdk(): void {
    this.#end({ tellsOther: (this.#lastFlags & XgressFlag.CircuitEnd) === 0 });
  }

  // From the fabric ---------------------------------------------------------------------------------------------------

  override payload(
    frame: FrameView,
    forward: Parameters<LocalEnd["payload"]>[1],
    flags: number,
    from?: Underlay,
  ): void {
    this.lastReceived = performance.now();
    super.payload(frame, forward, flags, from);
  }

  ack(frame: FrameView): void {
    const underlay = this.outputFor()?.underlay;
    if (underlay === undefined || underlay.output.pending > MAX_ACK_BACKLOG) return;
    this.write(frame, underlay);
  }

  control(frame: FrameView): void {
    const message = readControl(frame);
    const pending = this.outputFor()?.underlay.output.pending;
    // A sender of traces without end on the other side of a circuit must not make this channel too full to live.
    if (message === undefined || pending === undefined || pending > MAX_ACK_BACKLOG) return;
    if (message.kind === XgressControl.TraceRouteResponse) this.sdk.send(traceResponseToSdk(this.connId, message));
    if (message.kind !== XgressControl.TraceRoute) return;
    const answer = answerAtEdge(message);
    if (answer === undefined) this.sdk.send(traceRequestToSdk(this.connId, message));
    else this.sendControl(answer);
  }

  outputFor(): CountedOutput | undefined {
    return this.#ended ? undefined : this.sdk.outputFor(this.connId);
  }

  write(frame: FrameView, underlay: Underlay): void {
    try {
      if (!writeCircuitFrame(frame, underlay, this.connId)) this.counters.dropped++;
    } catch (error) {
      // The SDK is gone, or was just cut off: the end comes by the channel's close.
      if (!(error instanceof ChannelClosedError)) throw error;
    }
  }

  unrouted(): void {
    this.#tell(UNROUTED);
    this.#end({ report: false });
  }

  rerouted(): void {
    // The SDK repeats what was lost on the old way.
  }

  inspect(): Record<string, unknown> {
    return {
      address: this.address,
      originator: this.side === "initiator" ? "Initiator" : "Terminator",
      timeSinceLastLinkRx: `${Math.round(performance.now() - this.lastReceived)}ms`,
      flowControl: "sdk",
      connId: this.connId,
    };
  }

  // Ends --------------------------------------------------------------------------------------------------------------

  /** Ends the circuit from this side, telling the SDK why. */
  close(reason: string | Denial): void {
    this.#tell(reason);
    this.#end({ tellsOther: true });
  }

  channelClosed(): void {
    this.#end({ tellsOther: true });
  }

  /** Forgets the end and tells neither side: the dial it was made for failed. */
  abandon(): void {
    this.#end({ report: false });
  }

  #tell(reason: string | Denial): void {
    if (!this.#ended) this.sdk.send(stateClosed(this.connId, reason), this.outputFor()?.underlay);
  }

  /** @param o.tellsOther the other end learns it at once, not only when the circuit's owner takes it down; `report`: the owner learns it (default) */
  #end(o: { tellsOther?: boolean; report?: boolean }): void {
    if (this.#ended) return;
    this.#ended = true;
    this.sdk.forget(this);
    if (o.tellsOther === true) this.#path.end(this.#nextSequence);
    else this.#path.close(o.report ?? true);
  }
}

/** Adds what an SDK has to know, to do the flow control of a circuit itself, to the answer of a dial or to a dial. */
export function withFlowControl(headers: Headers, o: { controllerId: string; address: string }): Headers {
  return headers
    .setBool(EdgeHeader.UseXgressToSdk, true)
    .setString(EdgeHeader.XgressCtrlId, o.controllerId)
    .setString(EdgeHeader.XgressAddress, o.address);
}
