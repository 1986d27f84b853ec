import { expect, test } from "vitest";
import { Pool } from "./pool.ts";

/** A task that runs until it is released. */
function held(): { readonly run: () => Promise<void>; readonly release: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { run: () => promise, release: resolve };
}

test("a pool of one keeps the order, refuses tasks beyond its bound and survives failures", async () => {
  const errors: unknown[] = [];
  const pool = new Pool({ concurrency: 1, capacity: 2, onError: (error) => errors.push(error) });
  const first = held();
  const done: number[] = [];
  const offered = [1, 2, 3, 4].map((n) =>
    pool.offer(async () => {
      await first.run();
      done.push(n);
      if (n === 1) throw new Error("one failed");
    }),
  );
  expect([offered, pool.running, pool.waiting]).toEqual([[true, true, true, false], 1, 2]);
  first.release();
  await pool.idle();
  expect(done).toEqual([1, 2, 3]);
  expect(errors).toEqual([new Error("one failed")]);
});

test("a wide pool runs tasks side by side; a closed one takes none and drops those that wait", async () => {
  const pool = new Pool({ concurrency: 2 });
  const both = [held(), held()];
  const begun: string[] = [];
  for (const [i, each] of both.entries()) {
    pool.offer(() => {
      begun.push(`task ${i}`);
      return each.run();
    });
  }
  pool.offer(async () => void begun.push("waiting"));
  pool.close();
  expect([begun, pool.waiting, pool.offer(async () => {})]).toEqual([["task 0", "task 1"], 0, false]);
  let isIdle = false;
  const idle = pool.idle().then(() => {
    isIdle = true;
  });
  both[0]?.release();
  await both[0]?.run();
  expect(isIdle).toBe(false);
  both[1]?.release();
  await idle;
  await pool.idle();
  expect(begun).toHaveLength(2);
});

test("tasks hold so many bytes together, waiting and running, and a single one whatever it needs", async () => {
  const pool = new Pool({ concurrency: 1, capacity: 100, maxBytes: 64 });
  const first = held();
  expect([pool.offer(first.run, 100), pool.offer(async () => {}, 1), pool.offer(async () => {})]).toEqual([
    true,
    false,
    false,
  ]);
  first.release();
  await pool.idle();
  const second = held();
  expect([pool.offer(second.run, 40), pool.offer(async () => {}, 24), pool.offer(async () => {}, 1)]).toEqual([
    true,
    true,
    false,
  ]);
  second.release();
  await pool.idle();
  expect(pool.offer(async () => {}, 64)).toBe(true);
});

test("without a handler the rejection of a task is an unhandled one, and the pool goes on", async () => {
  const unhandled = Promise.withResolvers<unknown>();
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection").once("unhandledRejection", unhandled.resolve);
  const pool = new Pool({ concurrency: 1 });
  pool.offer(() => Promise.reject(new Error("broken")));
  let hasRun = false;
  pool.offer(async () => {
    hasRun = true;
  });
  expect(String(await unhandled.promise)).toBe("Error: broken");
  await pool.idle();
  expect(hasRun).toBe(true);
  for (const each of others) process.on("unhandledRejection", each);
});
