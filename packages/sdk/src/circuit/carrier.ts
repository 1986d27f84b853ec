import type { BodySealer } from "@sallyport/wire";

/**
 * How the messages of one connection travel: as Data messages, which the router's flow control covers, or as payloads of
 * a circuit whose flow control is done here. Message boundaries are kept.
 */
export interface Carrier {
  /** Writing now would only make a queue longer. */
  readonly isFull: boolean;
  /**
   * Sends the bytes `start..end` of `buffer`, which are used during the call only.
   *
   * @param flags bits of `EdgeFlag`
   * @param sealer makes the message from the bytes: encryption
   * @returns false: taken, but no more should come before `receiver.writable()`
   */
  write(buffer: Uint8Array, start: number, end: number, flags: number, sealer?: BodySealer): boolean;
  /** Has `receiver.writable()` called when it is no longer full. */
  awaitRoom(): void;
  /** Nothing more will be written: half close. */
  finish(): void;
  /** The receiver has room again: what it refused comes again. */
  resumeReading(): void;
  /** The receiver is gone. What was written before still leaves; the receiver is not called any more. */
  close(): void;
}

/** Who gets the messages of a connection. */
export interface CarrierReceiver {
  /** For who inspects the connection. */
  describe(): string;
  /** A message; its bytes are valid during the call. False: there is no room, it comes again after `resumeReading`. */
  message(buffer: Buffer, start: number, end: number, flags: number): boolean;
  /** The other end writes nothing more. */
  endOfData(): void;
  /** There is room again after `write` answered false. */
  writable(): void;
  /** The other end closed the connection, behind everything it sent. Nothing is called afterwards. */
  closed(): void;
  /** The network took the circuit down before the other end had ended: data may be missing. Nothing is called afterwards. */
  cut(): void;
  /** The router connection is gone; without a reason it was closed here. Nothing is called afterwards. */
  lost(reason: Error | undefined): void;
}
