/** Four messages: larger ones are fresh memory each time, whose page faults cost more than the allocations saved. */
const slabSize = 64 * 1024;
/** Smaller pieces come from Node's own pool: they must not keep a large slab alive. */
const smallest = 2_048;

let slab = Buffer.alloc(0);
let used = 0;

/**
 * Memory for `size` bytes that are about to be written completely. Large pieces of one slab follow each other, so that
 * bulk data costs one allocation for many messages.
 */
export function takeBuffer(size: number): Buffer {
  if (size < smallest || size > slabSize) return Buffer.allocUnsafe(size);
  if (slab.length - used < size) {
    slab = Buffer.allocUnsafeSlow(slabSize);
    used = 0;
  }
  const piece = slab.subarray(used, used + size);
  used += size;
  return piece;
}
