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

/** Four large messages: larger slabs are fresh memory each time, whose page faults cost more than the allocations saved. */
const SLAB_SIZE = 64 * 1024;
/** Smaller pieces come from Node's own pool: they must not keep a large slab alive. */
const MIN_READ = 2_048;
/** Connections whose pieces follow each other, at any one time. */
const MAX_SLOTS = 32;

/** A slab, and the connection whose pieces it is being filled with. */
interface Slot {
  owner: ReadMemory | undefined;
  slab: Buffer;
  used: number;
}

const slots: Slot[] = [];
let nextVictim = 0;

/**
 * Memory for what one connection receives and its application keeps. Large pieces of one connection follow each other in
 * a slab, so that those of one turn can be handed on as one. Connections that have received lately have a slab each;
 * beyond a few dozen they take them from each other, so that thousands of idle ones hold none.
 */
export class ReadMemory {
  #slot: Slot | undefined;

  /**
   * Memory for `size` bytes that are about to be written completely.
   *
   * @param isMore others wait to be handed on with it: it may lie in a slab however small it is
   */
  take(size: number, isMore = false): Buffer {
    if ((size < MIN_READ && !isMore) || size > SLAB_SIZE) return Buffer.allocUnsafe(size);
    let slot = this.#slot;
    if (slot === undefined || slot.owner !== this) {
      slot = slotFor(this);
      this.#slot = slot;
    }
    if (slot.slab.length - slot.used < size) {
      slot.slab = Buffer.allocUnsafeSlow(SLAB_SIZE);
      slot.used = 0;
    }
    const piece = slot.slab.subarray(slot.used, slot.used + size);
    slot.used += size;
    return piece;
  }
}

/** A new slot, or one of another connection, which goes on where that one stopped. */
function slotFor(owner: ReadMemory): Slot {
  if (slots.length < MAX_SLOTS) {
    const slot: Slot = { owner, slab: Buffer.alloc(0), used: 0 };
    slots.push(slot);
    return slot;
  }
  nextVictim = (nextVictim + 1) % MAX_SLOTS;
  const slot = slots[nextVictim] as Slot;
  slot.owner = owner;
  return slot;
}
