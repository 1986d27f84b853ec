import { describe, expect, it } from "vitest";
import { FramePool, type KeptFrame } from "./frame-pool.ts";

const SMALL = 10_000;
const LARGE = 16_000;

function takeMany(pool: FramePool, size: number, bytes: number): KeptFrame[] {
  const frames: KeptFrame[] = [];
  for (let left = bytes; left > 0; left -= size) frames.push(pool.take(size));
  return frames;
}

function giveAll(pool: FramePool, frames: readonly KeptFrame[]): void {
  for (const frame of frames) pool.give(frame);
}

describe("memory for frames", () => {
  it("is handed out again, the last frame first", () => {
    const pool = new FramePool();
    const [first, second] = [pool.take(SMALL), pool.take(SMALL)];
    giveAll(pool, [first, second]);
    expect(pool.take(SMALL)).toBe(second);
    expect(pool.take(SMALL)).toBe(first);
  });

  it("is not kept beyond its bound", () => {
    const pool = new FramePool({ maxFree: 1_000_000 });
    giveAll(pool, takeMany(pool, SMALL, 3_000_000));
    expect(pool.freeBytes).toBeLessThanOrEqual(1_000_000);
    expect(pool.lentBytes).toBe(0);
  });

  it("serves a load of another size than an earlier one that filled it", () => {
    const pool = new FramePool({ maxFree: 1_000_000 });
    giveAll(pool, takeMany(pool, SMALL, 2_000_000));
    const inUse = takeMany(pool, LARGE, 400_000);
    giveAll(pool, inUse);
    const again = takeMany(pool, LARGE, 400_000);
    expect(new Set(again)).toEqual(new Set(inUse));
    expect(pool.freeBytes).toBeLessThanOrEqual(1_000_000);
  });

  it("keeps something of every size in use at the same time", () => {
    const pool = new FramePool({ maxFree: 1_000_000 });
    const known = new Set<KeptFrame>();
    let fresh = 0;
    for (let round = 0; round < 20; round++) {
      fresh = 0;
      const frames = [...takeMany(pool, SMALL, 400_000), ...takeMany(pool, LARGE, 400_000)];
      for (const frame of frames) {
        if (!known.has(frame)) fresh++;
        known.add(frame);
      }
      giveAll(pool, frames);
    }
    expect(fresh).toBe(0);
  });
});
