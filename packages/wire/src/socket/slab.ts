/** Bytes of one slab: room for sixteen frames of a full TLS record each. */
export const SLAB_SIZE = 256 * 1024;
/** Slabs kept for reuse in this thread: 4 MiB. */
const KEEP = 16;

const free: Slab[] = [];

/**
 * Memory that frames are written into and sockets write from. Recycled, because fresh memory per frame costs more than
 * everything else done to the frame. Whoever holds a reference may rely on the bytes; the last release recycles them.
 */
export class Slab {
  readonly buffer: Buffer;
  #references = 1;

  constructor(size: number) {
    this.buffer = Buffer.allocUnsafeSlow(size);
  }

  retain(): void {
    this.#references++;
  }

  release(): void {
    this.#references--;
    if (this.#references === 0 && this.buffer.length === SLAB_SIZE && free.length < KEEP) {
      free.push(this);
    }
  }

  /** A slab with room for `size` bytes and one reference; the last one used comes first, it is still in the cache. */
  static take(size: number): Slab {
    if (size > SLAB_SIZE) {
      return new Slab(size);
    }
    const slab = free.pop();
    if (slab === undefined) {
      return new Slab(SLAB_SIZE);
    }
    slab.#references = 1;
    return slab;
  }

  /** Slabs that wait for reuse. */
  static get idle(): number {
    return free.length;
  }
}
