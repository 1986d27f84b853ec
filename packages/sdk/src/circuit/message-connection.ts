import { EdgeFlag } from "@sallyport/wire";
import { type ConnectionKeys, EndToEnd, scratchMemory } from "../crypto/end-to-end.ts";
import type { EdgeChannel } from "../edge-channel.ts";
import { ConnectionClosedError } from "../errors.ts";
import type { Carrier, CarrierReceiver } from "./carrier.ts";
import { type TraceHop, type TraceOptions, traceRoute } from "./trace-route.ts";

/** Plain bytes in one message of a stream at most: encrypted and framed for a link it fills one TLS record. */
export const STREAM_MESSAGE_BYTES = 16_279;
/** Plain bytes in one message of a stream where a little more saves a small message: four are a usual read of 64 KiB. */
export const MAX_STREAM_MESSAGE = 16_384;
/** The largest datagram there is over UDP. */
const DATAGRAM_MESSAGE_BYTES = 65_507;

/** What is known about a connection when it is made. */
export interface ConnectionInfo {
  /** Name of the service. */
  readonly service: string;
  readonly circuitId: string;
  /** Hosted connections: name of the identity that dialled, as its router announced it. */
  readonly callerId?: string | undefined;
  /** Bytes that the dialer gave along. */
  readonly appData?: Buffer | undefined;
  readonly localName: string;
  readonly remoteName: string;
}

/** What happens on a connection. Nothing is called before `start`, nor after `closed`. */
export interface ConnectionHandler {
  /**
   * Bytes of a stream, or one datagram, valid during the call only (see `memory`). False: there is no room, they come
   * again after `resume()`.
   */
  data(buffer: Buffer, start: number, end: number): boolean;
  /** The other end writes nothing more: half close. */
  endOfData(): void;
  /** There is room again after `write` answered false. */
  writable(): void;
  /** The connection is over: closed by the other end, or lost (with an error). */
  closed(error?: Error): void;
  /** Memory for bytes that are about to be given to `data`, which may keep it; without it they are only valid there. */
  memory?(size: number): Buffer;
}

/** How a connection is made, besides what is known about it. */
export interface ConnectionParts {
  readonly edge: EdgeChannel;
  /** On this channel. */
  readonly id: number;
  readonly info: ConnectionInfo;
  readonly crypto?: ConnectionKeys | undefined;
  /** Messages are datagrams: never cut, never joined. Otherwise the connection is one stream of bytes. */
  readonly datagrams?: boolean | undefined;
  readonly carrier: (receiver: CarrierReceiver) => Carrier;
}

/**
 * A connection to or from a service as callbacks: no streams in between, encrypted from where the bytes lie into the
 * outgoing buffer, decrypted from the read buffer (docs/sdk.md "Connections as callbacks").
 */
export class MessageConnection implements CarrierReceiver {
  readonly service: string;
  readonly circuitId: string;
  readonly callerId: string | undefined;
  readonly appData: Buffer | undefined;
  readonly localName: string;
  readonly remoteName: string;
  /** True when the bytes are encrypted between this process and the other end. */
  readonly isEncrypted: boolean;
  /** Plain bytes that fit one message; longer writes are cut for streams and refused for datagrams. */
  readonly maxMessage: number;
  bytesRead = 0;
  bytesWritten = 0;
  readonly #edge: EdgeChannel;
  readonly #id: number;
  readonly #datagrams: boolean;
  readonly #carrier: Carrier;
  readonly #crypto: EndToEnd | undefined;
  #handler: ConnectionHandler | undefined;
  /** Decrypted, or taken apart, and then refused: the oldest first. */
  #held: Buffer[] = [];
  #isAnnounced = false;
  #isGiving = false;
  /** What is told when everything that arrived was taken. */
  #isEndOfDataDue = false;
  #overDue: { readonly error: Error | undefined } | undefined;
  /** The other end's end of data came. */
  #sawEnd = false;
  #isOver = false;
  #error: Error | undefined;

  constructor(parts: ConnectionParts) {
    this.#edge = parts.edge;
    this.#id = parts.id;
    this.service = parts.info.service;
    this.circuitId = parts.info.circuitId;
    this.callerId = parts.info.callerId;
    this.appData = parts.info.appData;
    this.localName = parts.info.localName;
    this.remoteName = parts.info.remoteName;
    this.#datagrams = parts.datagrams === true;
    this.maxMessage = this.#datagrams ? DATAGRAM_MESSAGE_BYTES : STREAM_MESSAGE_BYTES;
    this.#crypto = parts.crypto === undefined ? undefined : new EndToEnd(parts.crypto);
    this.isEncrypted = this.#crypto !== undefined;
    this.#carrier = parts.carrier(this);
  }

  /** The connection to the router is gone. */
  get isRouterGone(): boolean {
    return this.#edge.isClosed;
  }

  /** Writing now would only make a queue longer. */
  get isFull(): boolean {
    return this.#carrier.isFull;
  }

  /** Has the handler's `writable` called when it is no longer full. */
  awaitRoom(): void {
    this.#carrier.awaitRoom();
  }

  /** Sends what has to come before any data. Called once, when the other end is known to be there. */
  begin(): void {
    const header = this.#crypto?.header;
    if (header !== undefined) this.#carrier.write(header, 0, header.length, this.#announcement());
  }

  /** From now on the handler is called. Call it once. */
  start(handler: ConnectionHandler): void {
    this.#handler = handler;
    if (this.#isOver) {
      queueMicrotask(() => handler.closed(this.#error));
      return;
    }
    this.resume();
  }

  /**
   * Sends bytes, which are used during the call only.
   *
   * @returns false: taken, but write no more until `writable()`
   * @throws RangeError a datagram is longer than `maxMessage`
   */
  write(buffer: Uint8Array, start = 0, end: number = buffer.length): boolean {
    if (this.#isOver) return true;
    if (this.#datagrams && end - start > this.maxMessage) {
      throw new RangeError(`a datagram has at most ${this.maxMessage} bytes, this one has ${end - start}`);
    }
    let room = true;
    const size = end - start <= MAX_STREAM_MESSAGE ? MAX_STREAM_MESSAGE : this.maxMessage;
    for (let at = start; at < end; at += size) {
      const to = Math.min(end, at + size);
      room = this.#carrier.write(buffer, at, to, this.#announcement(), this.#crypto) && room;
    }
    this.bytesWritten += end - start;
    return room;
  }

  /**
   * Asks a hop of the circuit how it answers: 1 is the first router ({@link TraceHop}).
   *
   * @throws RequestTimeoutError, ChannelClosedError, or the signal's reason
   */
  async traceRoute(hops: number, options?: TraceOptions): Promise<TraceHop> {
    return await traceRoute(this.#edge.channel, this.#id, hops, options);
  }

  /** Nothing more will be written: half close. */
  endWriting(): void {
    if (!this.#isOver) this.#carrier.finish();
  }

  /** There is room again after the handler's `data` answered false. */
  resume(): void {
    const handler = this.#handler;
    if (handler === undefined || this.#isOver || this.#isGiving) return;
    // Taken out while it is given: who takes it may call `resume` at once.
    this.#isGiving = true;
    for (let bytes = this.#held[0]; bytes !== undefined; bytes = this.#held[0]) {
      if (!handler.data(bytes, 0, bytes.length)) break;
      this.#held.shift();
    }
    this.#isGiving = false;
    if (this.#held.length > 0) return;
    if (this.#isEndOfDataDue && !this.#isOver) {
      this.#isEndOfDataDue = false;
      handler.endOfData();
    }
    if (this.#overDue !== undefined) this.#over(this.#overDue.error);
    else if (!this.#isOver) this.#carrier.resumeReading();
  }

  /** Ends the connection. What was written before still leaves; the handler is not called any more. */
  close(): void {
    this.#isOver = true;
    this.#held = [];
    this.#carrier.close();
  }

  // CarrierReceiver ---------------------------------------------------------------------------------------------------

  describe(): string {
    const { service, circuitId, bytesRead, bytesWritten } = this;
    return JSON.stringify({ service, circuitId, encrypted: this.isEncrypted, bytesRead, bytesWritten });
  }

  message(buffer: Buffer, start: number, end: number, flags: number): boolean {
    const handler = this.#handler;
    if (this.#isOver) return true;
    if (handler === undefined || this.#held.length > 0) return false;
    const isMultipart = (flags & EdgeFlag.MultipartMessage) !== 0;
    if (this.#crypto === undefined && !isMultipart && handler.memory === undefined) {
      if (!handler.data(buffer, start, end)) return false;
      this.bytesRead += end - start;
      return true;
    }
    const plain = this.#plain(buffer, start, end, handler);
    if (plain === undefined) return true;
    const parts = isMultipart ? partsOf(plain) : [plain];
    if (parts === undefined) {
      this.#carrier.close();
      this.#over(new ConnectionClosedError(`a message came in more than ${MAX_PARTS} parts; the connection is closed`));
    } else for (const part of parts) this.#give(part, handler);
    return true;
  }

  endOfData(): void {
    if (this.#sawEnd) return;
    this.#sawEnd = true;
    if (this.#hasUntaken) this.#isEndOfDataDue = true;
    else if (!this.#isOver) this.#handler?.endOfData();
  }

  writable(): void {
    if (!this.#isOver) this.#handler?.writable();
  }

  closed(): void {
    // Closed in its order, so that was all its data, too.
    this.endOfData();
    this.#overBehindData(undefined);
  }

  cut(): void {
    const text = `the network took the circuit to ${this.service} down before the other end had ended; data may be missing`;
    this.#overBehindData(new ConnectionClosedError(text));
  }

  lost(reason: Error | undefined): void {
    const text = `the connection to router ${this.#edge.router} was lost: ${reason?.message}; dial ${this.service} again`;
    this.#over(reason === undefined ? undefined : new ConnectionClosedError(text, { cause: reason }));
  }

  #plain(buffer: Buffer, start: number, end: number, handler: ConnectionHandler): Buffer | undefined {
    const memory = (size: number): Buffer => handler.memory?.(size) ?? scratchMemory(size);
    try {
      if (this.#crypto !== undefined) return this.#crypto.open(buffer, start, end, memory);
    } catch (error) {
      this.#carrier.close();
      this.#over(error instanceof Error ? error : new Error(String(error)));
      return undefined;
    }
    const plain = memory(end - start);
    buffer.copy(plain, 0, start, end);
    return plain;
  }

  #give(bytes: Buffer, handler: ConnectionHandler): void {
    if (bytes.length === 0 || this.#isOver) return;
    this.bytesRead += bytes.length;
    if (this.#held.length === 0 && handler.data(bytes, 0, bytes.length)) return;
    this.#held.push(handler.memory === undefined ? Buffer.from(bytes) : bytes);
  }

  /** Something arrived that the handler has not taken yet. */
  get #hasUntaken(): boolean {
    return this.#held.length > 0 || this.#handler === undefined;
  }

  #overBehindData(error: Error | undefined): void {
    if (this.#hasUntaken) this.#overDue = { error };
    else this.#over(error);
  }

  #over(error: Error | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#held = [];
    this.#error = error;
    this.#handler?.closed(error);
  }

  /** Boundaries mean nothing to a stream; said once, with the first message. */
  #announcement(): number {
    if (this.#isAnnounced || this.#datagrams) return 0;
    this.#isAnnounced = true;
    return EdgeFlag.Stream;
  }
}

/** Each part takes many times its own bytes in memory; no batch of datagrams has more. */
const MAX_PARTS = 32_768;

/** The parts of a message that have bytes; undefined when there are too many. */
function partsOf(body: Buffer): Buffer[] | undefined {
  const parts: Buffer[] = [];
  let count = 0;
  for (let at = 0; at + 2 <= body.length; ) {
    if (++count > MAX_PARTS) return undefined;
    const end = at + 2 + body.readUInt16LE(at);
    if (end > at + 2) parts.push(body.subarray(at + 2, Math.min(end, body.length)));
    at = end;
  }
  return parts;
}
