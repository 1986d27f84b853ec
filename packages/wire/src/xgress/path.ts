import type { FrameView } from "../frame/frame.ts";
import type { Waiter } from "../socket/fair-output.ts";
import type { XgressCounters, XgressLoad } from "./counters.ts";
import type { FramePool } from "./frames/frame-pool.ts";
import type { AckScheduler, ScanTimer } from "./timers.ts";

/** Which end of the circuit an xgress is. */
export type Side = "initiator" | "terminator";

/** The way from an xgress into the fabric: a router's forwarder, or an SDK's edge channel. */
export interface XgressPath {
  /** True when a payload can be sent now; otherwise call {@link wait}. */
  readonly isOpen: boolean;
  /** Asks for a turn when there is room. Without any way at all nothing is promised but `rerouted` when there is one. */
  wait(waiter: Waiter): void;
  /** Sends a payload; without a way it is dropped and left to retransmission. `frame` is valid during the call only. */
  payload(frame: FrameView, flags: number): void;
  /** Sends a retransmission; the caller has looked at {@link isOpen}. */
  retransmit(frame: FrameView, flags: number): void;
  /** Reports that there is no way for the circuit, when that is why the path is not open. Always false. */
  report(): false;
  ack(frame: FrameView): void;
  control(frame: FrameView): void;
  /** Takes the end out of the fabric: the circuit has ended here, and with `report` its owner is told. */
  close(report: boolean): void;
}

/** An xgress as the fabric sees it: where payloads, acknowledgements and control messages of its circuit are taken to. */
export interface XgressEnd {
  readonly kind: "xgress";
  readonly circuitId: string;
  /** Unique among the ends of a fabric. */
  readonly address: string;
  readonly side: Side;
  /** Its payloads are datagrams, as far as is known here: nothing tells that the circuit is no longer used. */
  readonly carriesDatagrams?: boolean;
  /** Set when it was taken out of the fabric. */
  gone: boolean;
  /** `performance.now()` of the last payload that arrived from the fabric. */
  readonly lastReceived: number;
  /** A payload (1100), an acknowledgement (1101), a control message (1102): `frame` is valid during the call only. */
  payload(frame: FrameView): void;
  ack(frame: FrameView): void;
  control(frame: FrameView): void;
  /** An xgress always takes a payload; its window is the sender's limit. */
  outputFor(): undefined;
  /** The circuit was unrouted: close without a word to the other end. */
  unrouted(): void;
  /** The circuit's way changed: what waited for a destination may try again. */
  rerouted(): void;
  /** Adds what the end has on its hands at the moment; absent for ends without flow control of their own. */
  load?(sum: XgressLoad): void;
  /** For inspection: what the wire's inspection calls the details of an xgress. */
  inspect(): Record<string, unknown>;
}

/** What all xgress of a program share, and where they are registered (docs/protocol/data-path.md, "Xgress"). */
export interface XgressFabric {
  readonly pool: FramePool;
  readonly counters: XgressCounters;
  readonly acks: AckScheduler;
  readonly scans: ScanTimer;
  /** Registers an end and returns its way into the fabric. */
  register(end: XgressEnd): XgressPath;
}
