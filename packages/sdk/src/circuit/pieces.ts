/** Cuts chunks into pieces of one size at most: large chunks in place, small ones joined. */
export class Pieces {
  readonly #size: number;
  #chunks: Buffer[] = [];
  /** Bytes of the first chunk that were handed out. */
  #taken = 0;

  /** @param size bytes of a piece at most */
  constructor(size: number) {
    this.#size = size;
  }

  /** Replaces what was left by these. */
  start(chunks: Buffer[]): void {
    this.#chunks = chunks;
    this.#taken = 0;
  }

  /** The next piece, never empty; undefined when nothing is left. It may be memory of a chunk. */
  next(): Buffer | undefined {
    for (;;) {
      const first = this.#chunks[0];
      if (first === undefined) return undefined;
      const isLarge = first.length - this.#taken >= this.#size;
      if (!isLarge && this.#chunks.length > 1) break;
      const piece = first.subarray(this.#taken, this.#taken + this.#size);
      this.#advance(first, piece.length);
      if (piece.length > 0) return piece;
    }
    const joined = Buffer.allocUnsafe(this.#size);
    let filled = 0;
    for (let chunk = this.#chunks[0]; chunk !== undefined && filled < this.#size; chunk = this.#chunks[0]) {
      const length = chunk.copy(joined, filled, this.#taken);
      filled += length;
      this.#advance(chunk, length);
    }
    return filled > 0 ? joined.subarray(0, filled) : undefined;
  }

  #advance(chunk: Buffer, length: number): void {
    this.#taken += length;
    if (this.#taken < chunk.length) return;
    this.#chunks.shift();
    this.#taken = 0;
  }
}
