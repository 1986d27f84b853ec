import {
  type BodySealer,
  CLOSED_BY_NETWORK,
  ConnType,
  EdgeFlag,
  EdgeHeader,
  EdgeType,
  type FairOutput,
  FRAME_PREFIX_LENGTH,
  HEADER_ENTRY_PREFIX_LENGTH,
  Headers,
  type Message,
  type Output,
  writeFramePrefix,
  writeU32Header,
} from "@sallyport/wire";
import { type EdgeChannel, type EdgeEndpoint, HeldId } from "../edge-channel.ts";
import type { Carrier, CarrierReceiver } from "./carrier.ts";

/** Bytes that wait for the application before the whole router connection is paused. */
const MAX_UNREAD = 4 * 1024 * 1024;
const LINGER_MS = 30_000;

/** Texts by which a router says that the network took the circuit down; OpenZiti's do not always distinguish that from a close. */
const cutReasons: readonly string[] = [CLOSED_BY_NETWORK, "xgress unrouted"];

interface Unread {
  readonly bytes: Buffer;
  readonly flags: number;
}

/** A connection by Data messages: the router does the flow control of its circuit (docs/protocol/edge.md "Data and ending"). */
export class DataCarrier implements Carrier, EdgeEndpoint {
  readonly connType = ConnType.Dial;
  readonly #edge: EdgeChannel;
  readonly #id: number;
  readonly #receiver: CarrierReceiver;
  /** Messages that found no room, the oldest first. */
  #unread: Unread[] = [];
  #unreadBytes = 0;
  /** The other end has sent its last message; it was handed over. */
  #sawFin = false;
  #finHanded = false;
  /** The other end closed the connection, or it was lost. */
  #isOver = false;
  /** The network took it down before the other end had sent its last message. */
  #isCut = false;
  #overHanded = false;
  #hasFinished = false;
  /** Both ends have sent FIN, ours came last. */
  #endedLast = false;
  #isClosed = false;
  #isWaiting = false;
  #isGiving = false;
  #output: FairOutput | undefined;

  constructor(edge: EdgeChannel, id: number, receiver: CarrierReceiver) {
    this.#edge = edge;
    this.#id = id;
    this.#receiver = receiver;
  }

  // From the router ---------------------------------------------------------------------------------------------------

  describe(): string {
    return this.#receiver.describe();
  }

  onData(buffer: Buffer, start: number, end: number, flags: number): void {
    if (this.#isClosed || this.#sawFin || this.#isOver) return;
    if ((flags & EdgeFlag.Fin) !== 0) this.#sawFin = true;
    if (end > start && (this.#unread.length > 0 || !this.#receiver.message(buffer, start, end, flags))) {
      this.#keep({ bytes: Buffer.from(buffer.subarray(start, end)), flags });
    }
    this.#handEnds();
  }

  onCircuitFrame(): void {
    // A router that was not asked for payloads sends none.
  }

  onMessage(message: Message): void {
    if (message.contentType !== EdgeType.StateClosed || this.#isOver) return;
    this.#isOver = true;
    this.#isCut = !this.#sawFin && cutReasons.includes(message.body.toString("utf8"));
    this.#edge.remove(this.#id, this);
    this.#handEnds();
  }

  onLost(reason: Error | undefined): void {
    if (this.#isClosed || this.#isOver) return;
    // As with a TCP connection whose other end has said everything: what arrived can be read, and only a write fails.
    if (this.#sawFin) {
      this.#isOver = true;
      this.#handEnds();
      return;
    }
    this.#isClosed = true;
    this.#receiver.lost(reason);
  }

  // Carrier -----------------------------------------------------------------------------------------------------------

  get isFull(): boolean {
    if (this.#isOver || this.#edge.isClosed) return false;
    return this.#isWaiting || this.#fair().output.isFull;
  }

  write(buffer: Uint8Array, start: number, end: number, flags: number, sealer?: BodySealer): boolean {
    if (this.#isClosed || this.#isOver || this.#hasFinished || this.#edge.isClosed) return true;
    const { output } = this.#fair();
    const bodyAt = reserveData(output, this.#id, end - start + (sealer?.overhead ?? 0), flags);
    if (sealer === undefined) output.slab.set(buffer.subarray(start, end), bodyAt);
    else sealer.seal(buffer as Buffer, start, end, output.slab, bodyAt);
    if (!output.isFull) return true;
    this.awaitRoom();
    return false;
  }

  finish(): void {
    if (this.#hasFinished || this.#isClosed) return;
    this.#hasFinished = true;
    if (this.#isOver || this.#edge.isClosed) return;
    reserveData(this.#fair().output, this.#id, 0, EdgeFlag.Fin);
    this.#endedLast = this.#sawFin;
  }

  resumeReading(): void {
    if (this.#isGiving) return;
    // Who takes a message may ask for more at once: this loop goes on with it.
    this.#isGiving = true;
    for (let unread = this.#unread[0]; unread !== undefined && !this.#isClosed; unread = this.#unread[0]) {
      const { bytes, flags } = unread;
      if (!this.#receiver.message(bytes, 0, bytes.length, flags)) break;
      this.#unread.shift();
      this.#unreadBytes -= bytes.length;
    }
    this.#isGiving = false;
    if (this.#unread.length > 0) return;
    this.#edge.resume(this);
    this.#handEnds();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#unread = [];
    this.#edge.remove(this.#id, this);
    if (this.#isOver || this.#edge.isClosed) return;
    if (this.#endedLast) {
      this.#linger();
      return;
    }
    const headers = new Headers().setU32(EdgeHeader.ConnId, this.#id);
    this.#edge.channel.send({ contentType: EdgeType.StateClosed, headers }, this.#fair().underlay);
  }

  /**
   * Keeps the id until the other end closes it. The end that finished last must not close first: its bytes may still be on
   * their way, and routers in the field stop repeating lost ones at the close.
   */
  #linger(): void {
    const [edge, id] = [this.#edge, this.#id];
    const held = new HeldId(edge, id, {
      limitMs: LINGER_MS,
      describe: () => JSON.stringify({ id, state: "ended in both directions" }),
      isLast: (message) => message.contentType === EdgeType.StateClosed,
      onTimeout: () => edge.sendClosed(id),
    });
    edge.finishing(held);
  }

  #keep(unread: Unread): void {
    this.#unread.push(unread);
    this.#unreadBytes += unread.bytes.length;
    if (this.#unreadBytes >= MAX_UNREAD) this.#edge.pause(this);
  }

  /** Hands on that the other end has finished, or closed, behind what it sent. */
  #handEnds(): void {
    if (this.#unread.length > 0 || this.#isClosed) return;
    if (this.#sawFin && !this.#finHanded) {
      this.#finHanded = true;
      this.#receiver.endOfData();
    }
    if (!this.#isOver || this.#overHanded) return;
    this.#overHanded = true;
    if (this.#isCut) this.#receiver.cut();
    else this.#receiver.closed();
  }

  awaitRoom(): void {
    if (this.#isWaiting || this.#isOver || this.#edge.isClosed) return;
    this.#isWaiting = true;
    this.#fair().output.onDrain(() => {
      this.#isWaiting = false;
      if (!this.#isClosed && !this.#overHanded) this.#receiver.writable();
    });
  }

  /** Always the same one while it lives: on another the data could overtake what went before. */
  #fair(): FairOutput {
    if (this.#output === undefined || this.#output.underlay.isClosed) this.#output = this.#edge.outputFor(this.#id);
    return this.#output;
  }
}

/**
 * Reserves a Data frame in a router connection's output and writes all of it but the body, which the caller writes next
 * (docs/protocol/edge.md "Data and ending").
 *
 * @param flags bits of `EdgeFlag`; 0 leaves the header out
 * @returns where in `output.slab` the body belongs
 * @throws ChannelClosedError
 */
function reserveData(output: Output, connectionId: number, bodyLength: number, flags: number): number {
  const headersLength = HEADER_ENTRY_PREFIX_LENGTH + 4 + (flags === 0 ? 0 : HEADER_ENTRY_PREFIX_LENGTH + 4);
  const offset = output.reserve(FRAME_PREFIX_LENGTH + headersLength + bodyLength);
  const slab = output.slab;
  let at = writeFramePrefix(slab, offset, EdgeType.Data, output.nextSequence(), headersLength, bodyLength);
  at = writeU32Header(slab, at, EdgeHeader.ConnId, connectionId);
  return flags === 0 ? at : writeU32Header(slab, at, EdgeHeader.Flags, flags);
}
