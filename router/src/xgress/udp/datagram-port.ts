import { type ControlMessage, type Delivery, EdgeFlag, type LocalPort } from "@sallyport/wire";
import { traceAnswerAt } from "../trace-answer.ts";

export interface DatagramPortOptions {
  /** What this end calls itself in answers to trace routes. */
  readonly hopType: string;
  /** Sends one datagram; the bytes are valid during the call only. It never waits: what finds no room is lost. */
  readonly send: (buffer: Buffer, start: number, end: number) => void;
  readonly onEnd: (reason: string) => void;
}

/** Datagrams at the end of a circuit: a payload is a datagram. There is no half close, an end of data ends it all. */
export class DatagramPort implements LocalPort {
  readonly carriesDatagrams = true;
  readonly #o: DatagramPortOptions;
  /** The circuit is full, until `resume`: datagrams that come meanwhile are lost, as they may be. */
  isFull = false;

  constructor(options: DatagramPortOptions) {
    this.#o = options;
  }

  deliver(delivery: Delivery): boolean {
    const { buffer, start, end, edgeFlags } = delivery;
    if (end > start) this.#o.send(buffer, start, end);
    if (edgeFlags >= 0 && (edgeFlags & EdgeFlag.Fin) !== 0) this.endOfData();
    return true;
  }

  endOfData(): void {
    this.#o.onEnd("the other end has finished");
  }

  resume(): void {
    this.isFull = false;
  }

  stopSending(): void {
    this.#o.onEnd("the other end takes nothing more");
  }

  closed(reason: string): void {
    this.#o.onEnd(reason);
  }

  trace(message: ControlMessage): ControlMessage {
    return traceAnswerAt(this.#o.hopType, message);
  }

  traceAnswered(): void {
    // This end asks nothing.
  }
}
