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
