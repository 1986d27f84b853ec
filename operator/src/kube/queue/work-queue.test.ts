import { once } from "node:events";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { KubeError } from "../client/errors.ts";
import { RetryLimiter, WorkQueue } from "./work-queue.ts";
import { Worker, type WorkerOptions } from "./worker.ts";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

async function takeAll(queue: WorkQueue): Promise<string[]> {
  const keys: string[] = [];
  while (queue.depth > 0) keys.push((await queue.take()) ?? "closed");
  return keys;
}

describe("a work queue", () => {
  test("keeps a key once, in the order of coming", async () => {
    const queue = new WorkQueue();
    for (const key of ["a", "b", "a", "c", "b"]) queue.add(key);
    expect(queue.depth).toBe(3);
    expect(await takeAll(queue)).toEqual(["a", "b", "c"]);
  });

  test("hands a key in work out again only when it is done, and once", async () => {
    const queue = new WorkQueue();
    queue.add("a");
    expect(await queue.take()).toBe("a");
    queue.add("a");
    queue.add("a");
    const next = queue.take();
    const seen = vi.fn();
    void next.then(seen);
    await vi.advanceTimersByTimeAsync(1000);
    expect(seen).not.toHaveBeenCalled();
    queue.done("a");
    expect(await next).toBe("a");
    queue.done("a");
    expect(queue.depth).toBe(0);
  });

  test("namespaces take turns, however many keys one of them has", async () => {
    const queue = new WorkQueue();
    for (const key of ["web/a", "web/b", "web/c", "edge/a", "node", "edge/b", "web/b"]) queue.add(key);
    expect(await takeAll(queue)).toEqual(["web/a", "edge/a", "node", "web/b", "edge/b", "web/c"]);
  });

  /** What is handed out to so many takers that wait at once, in their order. */
  async function handedOut(queue: WorkQueue, takers: number): Promise<(string | undefined)[]> {
    const seen: (string | undefined)[] = [];
    for (let i = 0; i < takers; i += 1) void queue.take().then((key) => seen.push(key));
    await vi.advanceTimersByTimeAsync(1000);
    return seen;
  }

  test("what hangs in one namespace keeps no other waiting", async () => {
    const queue = new WorkQueue({ workers: 4 });
    for (const key of ["web/a", "web/b", "web/c", "web/d", "edge/a"]) queue.add(key);
    const seen = await handedOut(queue, 4);
    expect(seen).toEqual(["web/a", "edge/a", "web/b"]);
    queue.add("web/a", "resync");
    queue.add("edge/b");
    await vi.advanceTimersByTimeAsync(1000);
    expect(seen).toHaveLength(3);
    queue.done("web/b");
    const later = await handedOut(queue, 1);
    expect([seen.slice(3), later]).toEqual([["web/c"], []]);
    queue.add("third/a");
    await vi.advanceTimersByTimeAsync(1000);
    expect(later).toEqual(["third/a"]);
  });

  test("where every worker is taken by another namespace, a further one is the next", async () => {
    const queue = new WorkQueue({ workers: 4 });
    for (let i = 0; i < 3; i += 1) for (let n = 0; n < 6; n += 1) queue.add(`n${n}/r${i}`);
    const seen = await handedOut(queue, 4);
    expect(seen).toEqual(["n0/r0", "n1/r0", "n2/r0", "n3/r0"]);
    for (const key of ["n0/r0", "n1/r0"]) queue.done(key);
    expect(await handedOut(queue, 2)).toEqual(["n4/r0", "n5/r0"]);
  });

  test("hands out what changed before what is only looked at again", async () => {
    const queue = new WorkQueue();
    queue.add("old1", "resync");
    queue.add("old2", "resync");
    queue.add("new1");
    queue.add("old2");
    expect(await takeAll(queue)).toEqual(["new1", "old2", "old1"]);
  });

  test("waits with a delay; an add in the meantime replaces it, and the shortest delay counts", async () => {
    const queue = new WorkQueue();
    queue.addAfter("a", 1000);
    queue.addAfter("a", 5000);
    queue.addAfter("b", 5000);
    queue.addAfter("b", 2000);
    queue.addAfter("c", 9000);
    queue.add("c");
    expect(await queue.take()).toBe("c");
    queue.done("c");
    expect(queue.delayed).toBe(2);
    await vi.advanceTimersByTimeAsync(999);
    expect(queue.depth).toBe(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(await takeAll(queue)).toEqual(["a"]);
    await vi.advanceTimersByTimeAsync(1000);
    expect(await takeAll(queue)).toEqual(["b"]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(queue.depth).toBe(0);
  });

  test("closed, it wakes who waits and takes nothing in", async () => {
    const queue = new WorkQueue();
    const waiting = queue.take();
    queue.addAfter("a", 10);
    queue.close();
    queue.add("b");
    await vi.advanceTimersByTimeAsync(100);
    expect(await waiting).toBeUndefined();
    expect(await queue.take()).toBeUndefined();
    expect(queue.depth).toBe(0);
  });

  test("counts adds, waits and work", async () => {
    const metrics = { added: vi.fn(), retried: vi.fn(), taken: vi.fn(), done: vi.fn() };
    const queue = new WorkQueue({ metrics });
    queue.add("a");
    queue.add("a");
    await vi.advanceTimersByTimeAsync(2000);
    await queue.take();
    queue.add("a");
    await vi.advanceTimersByTimeAsync(3000);
    expect([...queue.working.keys()]).toEqual(["a"]);
    queue.done("a");
    queue.retry("b");
    expect(metrics.added).toHaveBeenCalledTimes(2);
    expect(metrics.taken).toHaveBeenCalledWith(2);
    expect(metrics.done).toHaveBeenCalledWith(3);
    expect(metrics.retried).toHaveBeenCalledTimes(1);
  });
});

describe("the delay of a retry", () => {
  test("doubles from 5 ms to 1000 s, for each key alone, until it is forgotten", () => {
    const limiter = new RetryLimiter();
    const delays = Array.from({ length: 20 }, () => limiter.failed("a"));
    expect(delays.slice(0, 4)).toEqual([5, 10, 20, 40]);
    expect(delays.slice(17)).toEqual([5 * 2 ** 17, 1_000_000, 1_000_000]);
    expect(limiter.failed("b")).toBe(5);
    expect(limiter.failures("a")).toBe(20);
    limiter.forget("a");
    expect(limiter.failed("a")).toBe(5);
  });

  test("grows for all of a namespace when more than a hundred of it fail at once: ten a second", async () => {
    const limiter = new RetryLimiter();
    const delays = Array.from({ length: 120 }, (_, i) => limiter.failed(`k${i}`));
    expect(delays.slice(0, 100)).toEqual(Array(100).fill(5));
    expect(delays[100]).toBe(100);
    expect(delays[119]).toBe(2000);
    await vi.advanceTimersByTimeAsync(12_000);
    expect(limiter.failed("later")).toBe(5);
  });

  test("does not grow by what fails in other namespaces, however many those are", async () => {
    const limiter = new RetryLimiter();
    for (let i = 0; i < 10_000; i += 1) limiter.failed(`hostile/k${i}`);
    expect(limiter.failed("web/a")).toBe(5);
    for (let i = 0; i < 3_000; i += 1) limiter.failed(`n${i}/a`);
    await vi.advanceTimersByTimeAsync(1_000);
    for (let i = 0; i < 3_000; i += 1) limiter.failed(`m${i}/a`);
    expect(limiter.failed("hostile/k")).toBeGreaterThan(900_000);
  });
});

describe("a worker", () => {
  function start(work: WorkerOptions<string>["work"], o: Partial<WorkerOptions<string>> = {}) {
    const queue = new WorkQueue();
    const log = new RecordingLogger();
    const stop = new AbortController();
    const metrics = { started: vi.fn(), finished: vi.fn() };
    const worker = new Worker({ name: "Thing", queue, work, log, metrics, ...o });
    const done = worker.run(stop.signal);
    onTestFinished(async () => {
      stop.abort();
      await done;
    });
    return { queue, log, stop, done, metrics };
  }

  test("repeats what fails, later and later, and forgets the failures after success", async () => {
    let failures = 3;
    const at: number[] = [];
    const { queue, metrics } = start(async () => {
      at.push(performance.now());
      failures -= 1;
      if (failures >= 0) throw new Error("not yet");
      return undefined;
    });
    queue.add("a");
    await vi.advanceTimersByTimeAsync(1000);
    const begun = at[0] ?? 0;
    expect(at.map((time) => Math.round(time - begun))).toEqual([0, 5, 15, 35]);
    expect(queue.failures("a")).toBe(0);
    expect(metrics.finished.mock.calls.map(([result]) => result)).toEqual(["error", "error", "error", "success"]);
  });

  test("waits at least as long as the server asks", async () => {
    let runs = 0;
    const { queue } = start(async () => {
      runs += 1;
      if (runs === 1)
        throw new KubeError({ status: 429, reason: "TooManyRequests", message: "later", retryAfterMs: 4000 });
      return undefined;
    });
    queue.add("a");
    await vi.advanceTimersByTimeAsync(3999);
    expect(runs).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(runs).toBe(2);
  });

  test("tells work that takes too long to stop, and repeats it", async () => {
    vi.useRealTimers();
    let runs = 0;
    const work = async (_key: string, signal: AbortSignal) => {
      runs += 1;
      if (runs === 1) await once(signal, "abort").then(() => signal.throwIfAborted());
    };
    const { queue, metrics } = start(work, { timeoutMs: 20 });
    queue.add("a");
    await vi.waitFor(() => expect(metrics.finished).toHaveBeenCalledTimes(2), { timeout: 20_000 });
    expect(metrics.finished.mock.calls.map(([end]) => end)).toEqual(["timeout", "success"]);
  });

  test("looks again when work asks for it, which is no failure", async () => {
    let runs = 0;
    const { queue } = start(async () => {
      runs += 1;
      return { requeueAfterMs: 60_000 };
    });
    queue.add("a");
    await vi.advanceTimersByTimeAsync(180_000);
    expect(runs).toBe(4);
    expect(queue.failures("a")).toBe(0);
  });

  test("works on several keys at once, never twice on one, and ends after what is in work", async () => {
    const working = new Set<string>();
    let most = 0;
    const { queue, stop, done } = start(
      async (key) => {
        expect(working.has(key)).toBe(false);
        working.add(key);
        most = Math.max(most, working.size);
        await new Promise((resolve) => setTimeout(resolve, 100));
        working.delete(key);
        return undefined;
      },
      { concurrency: 3 },
    );
    for (let i = 0; i < 10; i += 1) {
      for (const key of ["a", "b", "c", "d", "e"]) queue.add(key);
      await vi.advanceTimersByTimeAsync(70);
    }
    expect(most).toBe(3);
    const ended = vi.fn();
    void done.then(ended);
    stop.abort();
    await vi.advanceTimersByTimeAsync(0);
    expect(ended).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(200);
    expect(ended).toHaveBeenCalled();
    expect(working.size).toBe(0);
  });
});
