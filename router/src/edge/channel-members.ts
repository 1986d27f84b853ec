import type { ControlMessage, FrameView, Message, Outgoing, Underlay } from "@sallyport/wire";
import type { CountedOutput, LinkCounters } from "../forwarder/counted-output.ts";
import type { TransitRoom } from "../forwarder/transit-queue.ts";
import type { Denial } from "./edge-messages.ts";
import type { Grant } from "./sdk-session.ts";

/** A dial, or a bind, that is not decided yet. */
export interface PendingRequest {
  readonly grant: Grant;
  readonly abort: AbortController;
}

/** A circuit of an SDK under a connection id: with flow control by the router, or by the SDK. */
export interface ClientCircuit {
  readonly connId: number;
  readonly circuitId: string;
  readonly grant: Grant;
  /** Its payloads are datagrams, as far as is known: it ends by silence only. */
  readonly carriesDatagrams: boolean;
  /** A Data message from the SDK. */
  data(frame: FrameView): void;
  sendControl(message: ControlMessage): void;
  /** The SDK closed it. */
  closedBySdk(): void;
  /** Ends it, telling the SDK why. */
  close(reason: string | Denial): void;
  /** The SDK's channel is gone. */
  channelClosed(): void;
}

/** A listener of an SDK under a connection id, as its channel knows it. */
export interface ClientListener {
  readonly connId: number;
  readonly terminatorId: string;
  readonly grant: Grant;
  /** The SDK changes its cost or precedence. */
  update(message: Message): void;
  healthEvent(message: Message): void;
  /** Ends it, telling the SDK why. */
  close(reason: string | Denial): void;
  /** Ends it, at the wish of its SDK or because the SDK's channel is gone. */
  remove(): void;
}

/** What circuits use of the channel of their SDK. */
export interface CircuitCarrier {
  /** Payloads of circuits whose flow control the SDK does. */
  readonly counters: LinkCounters;
  /** Sends a message unless the channel is gone; `via` keeps it behind data sent on the same connection. */
  send(out: Outgoing, via?: Underlay): void;
  /** The output that carries the data of a connection; `undefined` when the channel is closed. */
  outputFor(connId: number): CountedOutput | undefined;
  /** Room for what waits for this SDK. */
  roomOf(budget: TransitRoom): TransitRoom;
  /** A circuit holds as much as it may: nothing more is read from this SDK until it, and all others, have room again. */
  stopReadingFor(circuit: ClientCircuit): void;
  resumeReadingFor(circuit: ClientCircuit): void;
  forget(circuit: ClientCircuit): void;
}
