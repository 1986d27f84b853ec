import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { mapLimit, Pool, SerialQueue } from "./tasks.ts";

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

test.each([1, 2, 7, 100])("with a limit of %i the results are in the order of the items", async (limit) => {
  let running = 0;
  let most = 0;
  const results = await mapLimit([5, 4, 3, 2, 1, 0], limit, async (item, index) => {
    most = Math.max(most, ++running);
    for (let turn = 0; turn < item; turn++) await nextTurn();
    running--;
    return `${index}:${item}`;
  });
  expect(results).toEqual(["0:5", "1:4", "2:3", "3:2", "4:1", "5:0"]);
  expect(most).toBe(Math.min(limit, 6));
});

test("after an error no further item is begun", async () => {
  const begun: number[] = [];
  const work = mapLimit([1, 2, 3, 4], 2, async (item) => {
    begun.push(item);
    await nextTurn();
    if (item === 1) throw new Error("broken");
  });
  await expect(work).rejects.toThrow("broken");
  await nextTurn();
  expect(begun).toEqual([1, 2]);
});

test("no items, no work", async () => {
  expect(await mapLimit([], 3, async () => 1)).toEqual([]);
});

test("tasks run one after the other, in their order, whatever the one before came to", async () => {
  const seen: string[] = [];
  const queue = new SerialQueue();
  const task = (name: string) => async () => {
    seen.push(`${name} begins`);
    await nextTurn();
    seen.push(`${name} ends`);
    if (name === "a") throw new Error("broken");
    return name;
  };
  const outcomes = await Promise.allSettled([queue.run(task("a")), queue.run(task("b")), queue.run(() => "c")]);
  expect(seen).toEqual(["a begins", "a ends", "b begins", "b ends"]);
  expect(outcomes.map((o) => (o.status === "fulfilled" ? o.value : String(o.reason)))).toEqual([
    "Error: broken",
    "b",
    "c",
  ]);
});

test("is idle when the tasks so far have ended", async () => {
  const queue = new SerialQueue();
  await queue.idle();
  let hasEnded = false;
  const failing = queue.run(async () => {
    await nextTurn();
    hasEnded = true;
    throw new Error("broken");
  });
  failing.catch(() => {});
  await queue.idle();
  expect(hasEnded).toBe(true);
});

test("a rejection that its caller leaves alone is an unhandled one", async () => {
  const unhandled = Promise.withResolvers<unknown>();
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection").once("unhandledRejection", unhandled.resolve);
  void new SerialQueue().run(() => Promise.reject(new Error("broken")));
  expect(String(await unhandled.promise)).toBe("Error: broken");
  for (const each of others) process.on("unhandledRejection", each);
});
