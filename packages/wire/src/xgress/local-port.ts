import type { ControlMessage } from "./frames/control-message.ts";

/**
 * A payload on its way out of the fabric, as offsets into memory that is valid during the call only. One object per
 * xgress is reused for all its payloads.
 */
export interface Delivery {
  buffer: Buffer;
  /** First byte of the body and one past its last. */
  start: number;
  end: number;
  /** Flags of the edge Data message it came from (payload header 16); -1 when the payload has none. */
  edgeFlags: number;
  /** Trace id (payload header 0) as offsets into `buffer`; `uuidStart` is -1 when the payload has none. */
  uuidStart: number;
  uuidEnd: number;
}

/** The outside of an xgress: a connection of an SDK, a TCP connection. */
export interface LocalPort {
  /** Its payloads are datagrams: such a circuit has no end of its own, only silence. */
  readonly carriesDatagrams?: boolean;
  /**
   * Takes one payload in order, or answers `false` when there is no room; the port then calls `xgress.deliverHeld()`
   * as soon as there is. It must not keep `delivery`.
   */
  deliver(delivery: Delivery): boolean;
  /** Everything before was delivered and the other end sends nothing more: half close. */
  endOfData(): void;
  /** There is room again after `xgress.write` answered `false`. */
  resume(): void;
  /** The other end can no longer take data: stop reading. */
  stopSending(): void;
  /** The circuit has ended; nothing is called afterwards. */
  closed(reason: string): void;
  /** A trace route reached this end: the answer, or `undefined` when it is passed on and answered later. */
  trace(message: ControlMessage): ControlMessage | undefined;
  /** The answer to a trace route this end sent. */
  traceAnswered(message: ControlMessage): void;
}
