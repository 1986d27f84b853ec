import type { KeptFrame } from "./frame-pool.ts";

const FIRST_CAPACITY = 16;

/**
 * First in, first out queue of kept frames: a power-of-two ring, so that putting a frame in and taking it out allocates
 * nothing once the ring has grown to its working size.
 */
export class FrameQueue {
  #frames: (KeptFrame | undefined)[] = new Array(FIRST_CAPACITY);
  #head = 0;
  #count = 0;
  #bytes = 0;
  #memory = 0;

  /** Frames waiting. */
  get count(): number {
    return this.#count;
  }

  /** Bytes of frames waiting, headers included. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes of memory that the frames waiting lie in. */
  get memory(): number {
    return this.#memory;
  }

  push(frame: KeptFrame): void {
    if (this.#count === this.#frames.length) this.#grow();
    this.#frames[(this.#head + this.#count) & (this.#frames.length - 1)] = frame;
    this.#count++;
    this.#bytes += frame.end - frame.start;
    this.#memory += frame.buffer.length;
  }

  /** The oldest frame, left in the queue. */
  get head(): KeptFrame | undefined {
    return this.#frames[this.#head];
  }

  /** Takes the oldest frame out. */
  shift(): KeptFrame | undefined {
    const frame = this.#frames[this.#head];
    if (frame === undefined) return undefined;
    this.#frames[this.#head] = undefined;
    this.#bytes -= frame.end - frame.start;
    this.#memory -= frame.buffer.length;
    this.#head = (this.#head + 1) & (this.#frames.length - 1);
    this.#count--;
    return frame;
  }

  /** Takes everything out, handing each frame to `release`. */
  clear(release: (frame: KeptFrame) => void): void {
    for (let frame = this.shift(); frame !== undefined; frame = this.shift()) release(frame);
  }

  #grow(): void {
    const size = this.#frames.length;
    const frames: (KeptFrame | undefined)[] = new Array(size * 2);
    for (let i = 0; i < this.#count; i++) frames[i] = this.#frames[(this.#head + i) & (size - 1)];
    this.#frames = frames;
    this.#head = 0;
  }
}
