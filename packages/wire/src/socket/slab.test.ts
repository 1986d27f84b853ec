import { describe, expect, it } from "vitest";
import { SLAB_SIZE, Slab, SMALL_SLAB_SIZE } from "./slab.ts";

/** What so many connections at once have in use, given back all together. */
function turn(connections: number, take: () => Slab): Set<Slab> {
  const slabs = Array.from({ length: connections }, take);
  for (const slab of slabs) slab.release();
  return new Set(slabs);
}

describe("memory that sockets write from", () => {
  it("comes back when the last reference is released, the last first", () => {
    const slab = Slab.take(100);
    slab.retain();
    slab.release();
    const other = Slab.take(100);
    expect(other).not.toBe(slab);
    slab.release();
    expect(Slab.take(100)).toBe(slab);
    for (const taken of [slab, other]) taken.release();
  });

  it("that is released once too often is not given to two", () => {
    const slab = Slab.take(100);
    slab.release();
    slab.release();
    const [first, second] = [Slab.take(100), Slab.take(100)];
    expect(first).not.toBe(second);
    for (const taken of [first, second]) taken.release();
  });

  it("has two sizes, and more where it is asked for", () => {
    const slabs = [Slab.takeSmall(100), Slab.takeSmall(SMALL_SLAB_SIZE + 1), Slab.take(1), Slab.take(SLAB_SIZE + 1)];
    expect(slabs.map(({ buffer }) => buffer.length)).toEqual([SMALL_SLAB_SIZE, SLAB_SIZE, SLAB_SIZE, SLAB_SIZE + 1]);
    for (const slab of slabs) slab.release();
  });

  it("is new memory for many connections only once", () => {
    const first = turn(200, () => Slab.takeSmall(10_000));
    expect(turn(200, () => Slab.takeSmall(10_000))).toEqual(first);
  });

  it("is not kept without bound", () => {
    turn(100, () => Slab.take(100_000));
    turn(1_000, () => Slab.takeSmall(10_000));
    expect(Slab.idle).toBe(16 + 256);
  });
});
