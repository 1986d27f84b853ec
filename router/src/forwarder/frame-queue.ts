/**
 * First in, first out queue of kept frames: a power-of-two ring of parallel arrays, so that putting a frame in and
 * taking it out allocates nothing once the ring has grown to its working size.
 */
export class FrameQueue {
  #buffers: (Buffer | undefined)[] = new Array(16);
  #lengths = new Int32Array(16);
  #head = 0;
  #count = 0;
  #bytes = 0;

  /** Frames waiting. */
  get count(): number {
    return this.#count;
  }

  /** Bytes of frames waiting (frame lengths, not buffer sizes). */
  get bytes(): number {
    return this.#bytes;
  }

  push(buffer: Buffer, length: number): void {
    if (this.#count === this.#buffers.length) this.#grow();
    const at = (this.#head + this.#count) & (this.#buffers.length - 1);
    this.#buffers[at] = buffer;
    this.#lengths[at] = length;
    this.#count++;
    this.#bytes += length;
  }

  /** The oldest frame's buffer, or `undefined` when the queue is empty. Its length is {@link headLength}. */
  get head(): Buffer | undefined {
    return this.#count === 0 ? undefined : this.#buffers[this.#head];
  }

  get headLength(): number {
    return this.#count === 0 ? 0 : (this.#lengths[this.#head] as number);
  }

  /** Takes the oldest frame out. */
  shift(): Buffer | undefined {
    if (this.#count === 0) return undefined;
    const buffer = this.#buffers[this.#head];
    this.#buffers[this.#head] = undefined;
    this.#bytes -= this.#lengths[this.#head] as number;
    this.#head = (this.#head + 1) & (this.#buffers.length - 1);
    this.#count--;
    return buffer;
  }

  /** Takes everything out, handing each buffer to `release`. */
  clear(release: (buffer: Buffer) => void): void {
    for (let buffer = this.shift(); buffer !== undefined; buffer = this.shift()) release(buffer);
  }

  #grow(): void {
    const size = this.#buffers.length;
    const buffers: (Buffer | undefined)[] = new Array(size * 2);
    const lengths = new Int32Array(size * 2);
    for (let i = 0; i < this.#count; i++) {
      const from = (this.#head + i) & (size - 1);
      buffers[i] = this.#buffers[from];
      lengths[i] = this.#lengths[from] as number;
    }
    this.#buffers = buffers;
    this.#lengths = lengths;
    this.#head = 0;
  }
}
