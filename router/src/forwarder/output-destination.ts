import { type FramePool, type FrameView, type Underlay, XgressFlag } from "@sallyport/wire";
import type { Destination, Forward } from "./circuit.ts";
import type { CountedOutput, LinkCounters } from "./counted-output.ts";
import { TransitQueue, type TransitRoom } from "./transit-queue.ts";

/** What all destinations with connections of their own share: memory for payloads that wait, and its bound. */
export interface TransitMemory {
  readonly pool: FramePool;
  readonly budget: TransitRoom;
}

/**
 * A destination at the other end of a connection: a link, or an SDK that does its own flow control. A payload that finds
 * the output full waits in a queue of its circuit, within bounds, and the reading of other circuits goes on
 * (docs/protocol/data-path.md, "Push-back").
 */
export abstract class OutputDestination implements Destination {
  abstract readonly kind: "link" | "sdk";
  abstract readonly address: string;
  gone = false;
  readonly #memory: TransitMemory;

  constructor(memory: TransitMemory) {
    this.#memory = memory;
  }

  /** Where what is written to it is counted. */
  abstract readonly counters: LinkCounters;
  abstract outputFor(forward: Forward): CountedOutput | undefined;
  abstract ack(frame: FrameView, forward: Forward): void;
  abstract control(frame: FrameView, forward: Forward): void;
  /** Copies a payload, acknowledgement or control frame into the output of a connection. */
  abstract write(frame: FrameView, underlay: Underlay): void;

  payload(frame: FrameView, forward: Forward, flags: number, from?: Underlay): void {
    const output = this.outputFor(forward);
    if (output === undefined) return;
    const held = forward.held;
    if ((held !== undefined && held.count > 0) || (output.isFull && from !== undefined)) {
      if ((flags & XgressFlag.Retransmit) !== 0) {
        this.counters.droppedRetransmits++;
        if (held !== undefined && held.count > 0) held.waitFor(output);
        return;
      }
      if (this.#queueOf(forward).hold(frame, output, from)) this.counters.held++;
      else this.counters.dropped++;
      return;
    }
    this.counters.payloadsOut++;
    this.counters.payloadBytesOut += frame.end - frame.bodyStart;
    this.write(frame, output.underlay);
  }

  #queueOf(forward: Forward): TransitQueue {
    const known = forward.held;
    if (known instanceof TransitQueue) return known;
    const made = new TransitQueue(forward, this.#memory.pool, this.#memory.budget, (frame, underlay) =>
      this.write(frame, underlay),
    );
    forward.held = made;
    return made;
  }
}
