/** Bytes of a large slab: room for sixteen frames of a full TLS record each. */
export const SLAB_SIZE = 256 * 1024;
/** Bytes of a small one: what a connection with little to send needs, or one write to a plain socket. */
export const SMALL_SLAB_SIZE = 64 * 1024;

/** The slabs of one size that wait for reuse in this thread. */
interface Shelf {
  readonly size: number;
  readonly keep: number;
  readonly free: Slab[];
}

const large: Shelf = { size: SLAB_SIZE, keep: 16, free: [] };
/** As many as dozens of connections have in use at once, or each of their turns would begin with new memory. */
const small: Shelf = { size: SMALL_SLAB_SIZE, keep: 256, free: [] };

/**
 * Memory that frames are written into and sockets write from. Recycled, because fresh memory per frame costs more than
 * everything else done to the frame. The holder of a reference may rely on the bytes; the last release recycles them.
 */
export class Slab {
  readonly buffer: Buffer;
  readonly #shelf: Shelf | undefined;
  #references = 1;

  /** @param shelf where it goes back to; without one it is not reused */
  constructor(size: number, shelf?: Shelf) {
    this.buffer = Buffer.allocUnsafeSlow(size);
    this.#shelf = shelf;
  }

  retain(): void {
    this.#references++;
  }

  release(): void {
    if (--this.#references !== 0) return;
    const shelf = this.#shelf;
    if (shelf !== undefined && shelf.free.length < shelf.keep) shelf.free.push(this);
  }

  /** A large slab with room for `size` bytes and one reference; the last one used comes first, it is still in the cache. */
  static take(size: number): Slab {
    return Slab.#from(large, size);
  }

  /** As {@link take}, a small one if `size` fits. */
  static takeSmall(size: number): Slab {
    return Slab.#from(size > SMALL_SLAB_SIZE ? large : small, size);
  }

  static #from(shelf: Shelf, size: number): Slab {
    if (size > shelf.size) return new Slab(size);
    const slab = shelf.free.pop();
    if (slab === undefined) return new Slab(shelf.size, shelf);
    slab.#references = 1;
    return slab;
  }

  static get idle(): number {
    return large.free.length + small.free.length;
  }
}
