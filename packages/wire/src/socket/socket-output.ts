import type { Socket } from "node:net";
import { Slab } from "./slab.ts";

const FLUSH_AT = 64 * 1024;
const FULL_AT = 512 * 1024;
const DRAINED_AT = 128 * 1024;

let dirty: SocketOutput[] = [];

function flushDirty(): void {
  const outputs = dirty;
  dirty = [];
  for (const output of outputs) output.flush();
}

/**
 * Bytes on their way to a plain socket: gathered in recycled memory and written once per turn of the event loop. The
 * counterpart of a channel's output for connections that carry no frames.
 */
export class SocketOutput {
  readonly #socket: Socket;
  readonly #onDrain: () => void;
  #slab: Slab | undefined;
  #runStart = 0;
  #at = 0;
  #pending = 0;
  #full = false;
  #scheduled = false;

  /** @param onDrain called when an output that was full has room again */
  constructor(socket: Socket, onDrain: () => void) {
    this.#socket = socket;
    this.#onDrain = onDrain;
  }

  get isFull(): boolean {
    return this.#full;
  }

  /** Takes the bytes `start..end` of `buffer`, however full it is. */
  append(buffer: Buffer, start: number, end: number): void {
    const length = end - start;
    if (length === 0) return;
    if (this.#at - this.#runStart >= FLUSH_AT) this.#writeRun();
    if (this.#slab === undefined || this.#at + length > this.#slab.buffer.length) this.#roll(length);
    buffer.copy((this.#slab as Slab).buffer, this.#at, start, end);
    this.#at += length;
    this.#pending += length;
    if (this.#pending >= FULL_AT) this.#full = true;
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (dirty.push(this) === 1) setImmediate(flushDirty);
  }

  /** Hands everything to the socket now. */
  flush(): void {
    this.#scheduled = false;
    this.#writeRun();
  }

  #writeRun(): void {
    const slab = this.#slab;
    const length = this.#at - this.#runStart;
    if (slab === undefined || length === 0) return;
    const run = slab.buffer.subarray(this.#runStart, this.#at);
    this.#runStart = this.#at;
    slab.retain();
    this.#socket.write(run, () => this.#written(slab, length));
  }

  #written(slab: Slab, length: number): void {
    slab.release();
    this.#pending -= length;
    if (this.#pending === 0) this.#letGo();
    if (this.#full && this.#pending <= DRAINED_AT) {
      this.#full = false;
      this.#onDrain();
    }
  }

  #roll(length: number): void {
    this.#writeRun();
    this.#letGo();
    this.#slab = Slab.takeSmall(length);
  }

  #letGo(): void {
    this.#slab?.release();
    this.#slab = undefined;
    this.#runStart = 0;
    this.#at = 0;
  }
}
