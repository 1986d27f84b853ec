import { expect, test } from "vitest";
import { WorkLane } from "./work-lane.ts";

function gate(): { opened: Promise<void>; open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

test("a lane of one keeps the order, refuses what exceeds its bound and survives failures", async () => {
  const errors: unknown[] = [];
  const lane = new WorkLane(1, 2, (error) => errors.push(error));
  const first = gate();
  const done: number[] = [];
  const finished = gate();
  expect(
    lane.offer(async () => {
      await first.opened;
      done.push(1);
      throw new Error("one failed");
    }),
  ).toBe(true);
  expect(lane.offer(async () => void done.push(2))).toBe(true);
  expect(
    lane.offer(async () => {
      done.push(3);
      finished.open();
    }),
  ).toBe(true);
  expect(lane.offer(async () => void done.push(4))).toBe(false);
  first.open();
  await finished.opened;
  expect(done).toEqual([1, 2, 3]);
  expect(errors).toEqual([new Error("one failed")]);
});

test("a wide lane runs tasks side by side; a closed one takes none", async () => {
  const lane = new WorkLane(2, 0, () => {});
  const both = [gate(), gate()];
  const started: number[] = [];
  for (const [i, g] of both.entries()) {
    expect(
      lane.offer(async () => {
        started.push(i);
        await g.opened;
      }),
    ).toBe(true);
  }
  expect(started).toEqual([0, 1]);
  expect(lane.offer(async () => {})).toBe(false);
  lane.close();
  let isIdle = false;
  const idle = lane.idle().then(() => {
    isIdle = true;
  });
  both[0]?.open();
  await both[0]?.opened;
  expect(isIdle).toBe(false);
  both[1]?.open();
  await idle;
  await lane.idle();
  expect(lane.offer(async () => {})).toBe(false);
});

test("a lane holds so many bytes, of what runs and what waits, and one task whatever its size", async () => {
  const lane = new WorkLane(1, 100, () => {});
  const MB = 1024 * 1024;
  const first = gate();
  expect(lane.offer(() => first.opened, 100 * MB)).toBe(true);
  expect(lane.offer(async () => {}, 1)).toBe(false);
  expect(lane.offer(async () => {})).toBe(false);
  first.open();
  const second = gate();
  await lane.idle();
  expect(lane.offer(() => second.opened, 40 * MB)).toBe(true);
  expect(lane.offer(async () => {}, 24 * MB)).toBe(true);
  expect(lane.offer(async () => {}, 1)).toBe(false);
  second.open();
  await lane.idle();
  expect(lane.offer(async () => {}, 64 * MB)).toBe(true);
});
