import {
  ChannelClosedError,
  type ControlMessage,
  type Delivery,
  EdgeFlag,
  EdgeHeader,
  EdgeType,
  type FairOutput,
  FRAME_PREFIX_LENGTH,
  type FrameView,
  HEADER_ENTRY_PREFIX_LENGTH,
  type LocalPort,
  type Waiter,
  writeFramePrefix,
  writeU32Header,
  type Xgress,
} from "@sallyport/wire";
import type { CircuitCarrier, ClientCircuit } from "./channel-members.ts";
import { type Denial, stateClosed } from "./edge-messages.ts";
import type { Grant } from "./sdk-session.ts";
import { answerAtEdge, traceRequestToSdk, traceResponseToSdk } from "./trace-route.ts";

const CONN_ID_LENGTH = HEADER_ENTRY_PREFIX_LENGTH + 4;
const FLAGS_LENGTH = HEADER_ENTRY_PREFIX_LENGTH + 4;
/** A longer trace id is none and stays behind: with the headers of a payload it could make a frame that a link refuses. */
const MAX_UUID = 64;
/** Behind this much no trace is sent. */
const MAX_TRACE_BACKLOG = 8 * 1024 * 1024;

/**
 * One circuit as an SDK sees it: Data messages on a connection id of its channel. One Data message is one payload and
 * the other way round; bodies are never split or merged (docs/protocol/data-path.md, "Edge connections").
 */
export class DataCircuit implements ClientCircuit, LocalPort, Waiter {
  readonly sdk: CircuitCarrier;
  readonly connId: number;
  readonly grant: Grant;
  readonly carriesDatagrams: boolean;
  /** Set by the caller that makes the xgress for this port, before anything arrives. */
  xgress!: Xgress;
  /** Its connection of the channel: another one while this one lives could overtake it. */
  #output: FairOutput | undefined;
  #finSent = false;
  #ended = false;

  /** @param carriesDatagrams what the dialling end says of it */
  constructor(sdk: CircuitCarrier, connId: number, grant: Grant, carriesDatagrams = false) {
    this.sdk = sdk;
    this.connId = connId;
    this.grant = grant;
    this.carriesDatagrams = carriesDatagrams;
  }

  get circuitId(): string {
    return this.xgress.circuitId;
  }

  sendControl(message: ControlMessage): void {
    this.xgress.sendControl(message);
  }

  /** A Data message from the SDK. */
  data(frame: FrameView): void {
    if (this.#ended) return;
    const b = frame.buffer;
    let edgeFlags = -1;
    let uuidStart = -1;
    let uuidEnd = -1;
    let p = frame.headersStart;
    while (p + HEADER_ENTRY_PREFIX_LENGTH <= frame.headersEnd) {
      const key = b.readInt32LE(p);
      const length = b.readInt32LE(p + 4);
      if (key === EdgeHeader.Flags && length === 4) edgeFlags = b.readUInt32LE(p + HEADER_ENTRY_PREFIX_LENGTH);
      else if (key === EdgeHeader.Uuid && length <= MAX_UUID) {
        uuidStart = p + HEADER_ENTRY_PREFIX_LENGTH;
        uuidEnd = uuidStart + length;
      }
      p += HEADER_ENTRY_PREFIX_LENGTH + length;
    }
    const room = this.xgress.write(b, frame.bodyStart, frame.end, edgeFlags, uuidStart, uuidEnd);
    if (!room) this.sdk.stopReadingFor(this);
  }

  /** The SDK closed the connection: what it sent before still goes out, what comes is dropped. */
  closedBySdk(): void {
    if (this.#ended) return;
    this.#end();
    this.xgress.close("closed by the client");
  }

  /** Closes the connection from this side, telling the SDK why. */
  close(reason: string | Denial): void {
    if (this.#ended) return;
    this.#tellClosed(reason);
    this.#end();
    this.xgress.close(typeof reason === "string" ? reason : reason.text);
  }

  /** The dial it was made for failed. */
  abandon(): void {
    this.xgress.abandon();
  }

  /** The SDK's channel is gone. */
  channelClosed(): void {
    if (this.#ended) return;
    this.#end();
    this.xgress.close("the client's connection to the router was lost");
  }

  // LocalPort ---------------------------------------------------------------------------------------------------------

  deliver(delivery: Delivery): boolean {
    if (this.#ended) return true;
    const fair = this.#fair();
    if (fair === undefined) return true;
    if (fair.isFull) {
      fair.wait(this);
      return false;
    }
    this.#writeData(fair, delivery);
    return true;
  }

  endOfData(): void {
    if (this.#ended || this.#finSent) return;
    const fair = this.#fair();
    if (fair === undefined) return;
    const empty = { buffer: Buffer.alloc(0), start: 0, end: 0, edgeFlags: EdgeFlag.Fin, uuidStart: -1, uuidEnd: -1 };
    this.#writeData(fair, empty);
  }

  resume(): void {
    this.sdk.resumeReadingFor(this);
  }

  stopSending(): void {
    // Nothing tells an SDK that its peer no longer reads; what it still sends is dropped by the xgress.
    this.sdk.resumeReadingFor(this);
  }

  closed(reason: string): void {
    if (this.#ended) return;
    this.#tellClosed(reason);
    this.#end();
  }

  trace(message: ControlMessage): ControlMessage | undefined {
    const answer = answerAtEdge(message);
    if (answer === undefined && this.#takesTraces) this.sdk.send(traceRequestToSdk(this.connId, message));
    return answer;
  }

  traceAnswered(message: ControlMessage): void {
    if (this.#takesTraces) this.sdk.send(traceResponseToSdk(this.connId, message));
  }

  /** Traces without end from the other side of a circuit must not make this channel too full to live. */
  get #takesTraces(): boolean {
    const output = this.sdk.outputFor(this.connId)?.underlay.output;
    return output !== undefined && output.pending <= MAX_TRACE_BACKLOG;
  }

  // Waiter ------------------------------------------------------------------------------------------------------------

  takeTurn(): boolean {
    return !this.#ended && this.xgress.deliverHeld(1);
  }

  outputGone(): void {
    if (!this.#ended) this.xgress.deliverHeld();
  }

  #fair(): FairOutput | undefined {
    if (this.#output === undefined || this.#output.underlay.isClosed) this.#output = this.sdk.outputFor(this.connId);
    return this.#output;
  }

  #writeData(fair: FairOutput, d: Delivery): void {
    const uuidLength = d.uuidStart < 0 ? 0 : d.uuidEnd - d.uuidStart;
    const headersLength =
      CONN_ID_LENGTH +
      (d.edgeFlags < 0 ? 0 : FLAGS_LENGTH) +
      (d.uuidStart < 0 ? 0 : HEADER_ENTRY_PREFIX_LENGTH + uuidLength);
    const bodyLength = d.end - d.start;
    const output = fair.output;
    let offset: number;
    try {
      offset = output.reserve(FRAME_PREFIX_LENGTH + headersLength + bodyLength);
    } catch (error) {
      // The SDK is gone, or reads nothing at all and was just cut off: its end comes by the channel's close.
      if (error instanceof ChannelClosedError) return;
      throw error;
    }
    const slab = output.slab;
    let at = writeFramePrefix(slab, offset, EdgeType.Data, output.nextSequence(), headersLength, bodyLength);
    at = writeU32Header(slab, at, EdgeHeader.ConnId, this.connId);
    if (d.edgeFlags >= 0) {
      at = writeU32Header(slab, at, EdgeHeader.Flags, d.edgeFlags);
      if ((d.edgeFlags & EdgeFlag.Fin) !== 0) this.#finSent = true;
    }
    if (d.uuidStart >= 0) {
      slab.writeInt32LE(EdgeHeader.Uuid, at);
      slab.writeUInt32LE(uuidLength, at + 4);
      d.buffer.copy(slab, at + HEADER_ENTRY_PREFIX_LENGTH, d.uuidStart, d.uuidEnd);
      at += HEADER_ENTRY_PREFIX_LENGTH + uuidLength;
    }
    d.buffer.copy(slab, at, d.start, d.end);
  }

  #tellClosed(reason: string | Denial): void {
    this.sdk.send(stateClosed(this.connId, reason), this.#fair()?.underlay);
  }

  #end(): void {
    this.#ended = true;
    this.sdk.resumeReadingFor(this);
    this.sdk.forget(this);
  }
}
