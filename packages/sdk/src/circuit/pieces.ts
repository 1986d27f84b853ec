/** Where small chunks are joined: what is in it was used before the next piece is asked for, whosever it is. */
let joint = Buffer.alloc(0);

/** Cuts chunks into pieces: large chunks in place, small ones joined. */
export class Pieces {
  readonly #size: number;
  readonly #most: number;
  #chunks: Buffer[] = [];
  /** Bytes of the first chunk that were handed out. */
  #taken = 0;

  /**
   * @param size bytes of a piece
   * @param most bytes of a piece where larger ones save a small one at the end of a chunk
   */
  constructor(size: number, most: number = size) {
    this.#size = size;
    this.#most = most;
  }

  /** Replaces what was left by these. */
  start(chunks: Buffer[]): void {
    this.#chunks = chunks;
    this.#taken = 0;
  }

  /** The next piece, never empty; undefined when nothing is left. Its bytes are valid until the next call, for any chunks. */
  next(): Buffer | undefined {
    for (;;) {
      const first = this.#chunks[0];
      if (first === undefined) return undefined;
      const left = first.length - this.#taken;
      if (left < this.#size && this.#chunks.length > 1) break;
      const piece = first.subarray(this.#taken, this.#taken + this.#cut(left));
      this.#advance(first, piece.length);
      if (piece.length > 0) return piece;
    }
    if (joint.length < this.#size) joint = Buffer.allocUnsafeSlow(this.#size);
    let filled = 0;
    for (let chunk = this.#chunks[0]; chunk !== undefined && filled < this.#size; chunk = this.#chunks[0]) {
      const length = chunk.copy(joint, filled, this.#taken, this.#taken + this.#size - filled);
      filled += length;
      this.#advance(chunk, length);
    }
    return filled > 0 ? joint.subarray(0, filled) : undefined;
  }

  /** Chunks are often powers of two: four pieces, rather than four and a tail that costs as much as another one. */
  #cut(left: number): number {
    const even = Math.ceil(left / Math.max(1, Math.floor(left / this.#size)));
    return even <= this.#most ? even : this.#size;
  }

  #advance(chunk: Buffer, length: number): void {
    this.#taken += length;
    if (this.#taken < chunk.length) return;
    this.#chunks.shift();
    this.#taken = 0;
  }
}
