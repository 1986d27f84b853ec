import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import { Writable } from "node:stream";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Channel } from "../channel/channel.ts";
import { ChannelClosedError } from "../errors.ts";
import { FRAME_PREFIX_LENGTH, writeFramePrefix } from "../frame/frame.ts";
import { TestListener } from "../testing/channel-pair.ts";
import { SLAB_SIZE, Slab } from "./slab.ts";
import { type Output, type OutputLimits, SlabOutput } from "./slab-output.ts";

let listener: TestListener;
beforeEach(async () => {
  listener = await TestListener.start({ maxBody: 8_000_000 });
});
afterEach(() => listener.close());

/** Writes one frame of type 1100 in place. */
function frame(output: Output, body: Buffer): void {
  const at = output.reserve(FRAME_PREFIX_LENGTH + body.length);
  const { slab } = output;
  body.copy(slab, writeFramePrefix(slab, at, 1100, output.nextSequence(), 0, body.length));
}

interface Sink {
  readonly sha: () => string;
  readonly frames: () => number;
  readonly sequences: number[];
  until(frames: number): Promise<void>;
}

function sinkOf(channel: Channel): Sink {
  const hash = createHash("sha256");
  const sequences: number[] = [];
  let wake = (): void => {};
  channel.onFrame = (view) => {
    hash.update(view.buffer.subarray(view.bodyStart, view.end));
    sequences.push(view.sequence);
    wake();
    return true;
  };
  return {
    sha: () => hash.copy().digest("hex"),
    frames: () => sequences.length,
    sequences,
    until: (frames) =>
      new Promise((resolve) => {
        wake = () => {
          if (sequences.length >= frames) resolve();
        };
        wake();
      }),
  };
}

describe("what is written in place", () => {
  test("arrives unchanged and in order, whatever the sizes and however slabs are reused", async () => {
    const channel = await listener.dial();
    const sink = sinkOf(await listener.channel());
    const { output } = channel.underlayFor(0);
    const hash = createHash("sha256");
    let seed = 7;
    const count = 3_000;
    for (let i = 0; i < count; i++) {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff;
      const size = i % 500 === 499 ? SLAB_SIZE + (seed % 1_000_000) : seed % (i % 7 === 0 ? 40_000 : 900);
      const body = Buffer.alloc(size, i);
      hash.update(body);
      frame(output, body);
      if (output.isFull) {
        await new Promise<void>((resolve) => output.onDrain(resolve));
      } else if (i % 50 === 0) {
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    await sink.until(count);
    expect(sink.sha()).toBe(hash.digest("hex"));
    expect(sink.sequences).toEqual(Array.from({ length: count }, (_, i) => i + 1));
    expect(output.isFull).toBe(false);
  });

  test("in one turn leaves in one write", async () => {
    const channel = await listener.dial();
    const sink = sinkOf(await listener.channel());
    const { output } = channel.underlayFor(0);
    const before = Slab.idle;
    for (let i = 0; i < 100; i++) frame(output, Buffer.alloc(100));
    expect(output.pending).toBe(12_000);
    await sink.until(100);
    // Nothing is pending any more, and an idle connection holds no slab.
    while (output.pending > 0) await new Promise((resolve) => setImmediate(resolve));
    expect(output.slab.length).toBe(0);
    expect(Slab.idle).toBeGreaterThanOrEqual(Math.max(1, before));
  });
});

describe("a socket that is slow", () => {
  /** Takes one run whenever it is told to. */
  function slow(limits: Partial<OutputLimits> = {}, onOverflow: (error: Error) => void = () => {}) {
    const runs: Buffer[] = [];
    let taken = (): void => {};
    const socket = new Writable({
      decodeStrings: false,
      write(run: Buffer, _encoding, done) {
        runs.push(Buffer.from(run));
        taken = done;
      },
    });
    let sequence = 0;
    const output = new SlabOutput(socket as Socket, {
      nextSequence: () => ++sequence,
      limits: { maxPending: 8_000_000, ...limits },
      onOverflow,
    });
    return { output, runs, queued: () => socket.writableLength, take: () => taken() };
  }

  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  test("is given one run at a time, and everything before it is ended", async () => {
    const { output, runs, queued, take } = slow();
    const bodies = Array.from({ length: 60 }, (_, i) => Buffer.alloc(20_000 + i, i));
    const expected = Buffer.concat(
      bodies.map((body, i) => {
        const prefix = Buffer.alloc(FRAME_PREFIX_LENGTH);
        writeFramePrefix(prefix, 0, 1100, i + 1, 0, body.length);
        return Buffer.concat([prefix, body]);
      }),
    );
    for (const [i, body] of bodies.entries()) {
      frame(output, body);
      if (i % 9 === 0) await turn();
      expect(queued()).toBe(runs.at(-1)?.length ?? 0);
    }
    for (let i = 0; i < 3; i++) {
      take();
      await turn();
      expect(queued()).toBe(runs.at(-1)?.length);
    }
    output.finish();
    while (output.pending > 0) {
      take();
      await turn();
    }
    expect(Buffer.concat(runs).equals(expected)).toBe(true);
  });

  test("is not blamed for the time in which this process stood still", async () => {
    const blames: Error[] = [];
    const { output, take } = slow({ writeTimeoutMs: 20 }, (error) => blames.push(error));
    for (let i = 0; i < 5; i++) {
      frame(output, Buffer.alloc(10));
      await turn();
      // It has taken the run: this process is told of it in the next turn, after timers.
      setImmediate(take);
      const until = performance.now() + 50;
      while (performance.now() < until);
      await turn();
    }
    expect(blames).toEqual([]);
    frame(output, Buffer.alloc(10));
    await vi.waitFor(() => expect(blames).toMatchObject([{ code: "WRITE_TIMEOUT" }]), 10_000);
  });

  test("has what it was not given taken over, across slabs", async () => {
    const { output, runs } = slow();
    for (let i = 0; i < 30; i++) {
      frame(output, Buffer.alloc(20_000, i));
      if (i === 0) await turn();
    }
    const unsent = output.takeUnsent();
    expect(runs.map((run) => run.length)).toEqual([20_020]);
    expect(unsent.length).toBe(29 * 20_020);
    expect(Array.from({ length: 29 }, (_, i) => unsent[i * 20_020 + FRAME_PREFIX_LENGTH])).toEqual(
      Array.from({ length: 29 }, (_, i) => i + 1),
    );
    expect(output.pending).toBe(20_020);
    output.close();
  });
});

describe("a peer that does not read", () => {
  test("fills the output, whose drain is told once", async () => {
    const channel = await listener.dial();
    const other = await listener.channel();
    const sink = sinkOf(other);
    const [far] = other.underlays;
    far?.pause();
    const { output } = channel.underlayFor(0);
    let sent = 0;
    while (!output.isFull) {
      frame(output, Buffer.alloc(50_000));
      sent++;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(channel.isFull).toBe(true);
    expect(channel.queuedBytes).toBe(output.pending);
    expect(output.pending).toBeGreaterThanOrEqual(512 * 1024);
    let drains = 0;
    const drained = new Promise<void>((resolve) => {
      output.onDrain(() => {
        drains++;
        resolve();
      });
      channel.onDrain(() => drains++);
    });
    far?.resume();
    await drained;
    await sink.until(sent);
    expect(drains).toBe(2);
    expect(output.isFull).toBe(false);
    await new Promise<void>((resolve) => output.onDrain(resolve));
  });

  test("holds back only the connection that feeds it", async () => {
    const full = await listener.dial();
    const farFull = await listener.channel(0);
    farFull.underlays[0]?.pause();
    const source = await listener.dial();
    const near = await listener.channel(1);
    const free = await listener.dial();
    await listener.channel(2);
    const target = full.underlayFor(0).output;
    let arrived = 0;
    near.onFrame = (view, underlay) => {
      arrived++;
      frame(target, Buffer.from(view.buffer.subarray(view.bodyStart, view.end)));
      if (target.isFull) underlay.holdFor(target);
      return true;
    };
    const { output } = source.underlayFor(0);
    const total = 1_000;
    const feed = (async () => {
      for (let i = 0; i < total; i++) {
        frame(output, Buffer.alloc(20_000));
        if (output.isFull) await new Promise<void>((resolve) => output.onDrain(resolve));
      }
    })();
    while (!target.isFull || !output.isFull) await new Promise((resolve) => setImmediate(resolve));
    expect(arrived).toBeLessThan(total);
    expect(target.pending).toBeLessThan(2_000_000);
    expect((await free.request({ contentType: 1 })).replyFor).toBe(1);
    const sink = sinkOf(farFull);
    farFull.underlays[0]?.resume();
    await feed;
    await sink.until(total);
    expect(arrived).toBe(total);
  });

  test("ends when far too much waits for it", async () => {
    const channel = await listener.dial({ maxPending: 1_000_000 });
    (await listener.channel()).underlays[0]?.pause();
    const { output } = channel.underlayFor(0);
    const flood = async (): Promise<void> => {
      for (;;) {
        frame(output, Buffer.alloc(100_000));
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await expect(flood()).rejects.toMatchObject({ code: "QUEUE_FULL" });
    expect(await channel.closed).toMatchObject({ code: "QUEUE_FULL" });
    expect(() => output.reserve(1)).toThrow(ChannelClosedError);
  });

  test("ends when it takes nothing for too long, and lives as long as it takes something", async () => {
    const slow = await listener.dial({ writeTimeoutMs: 500 });
    const far = await listener.channel();
    const sink = sinkOf(far);
    const { output } = slow.underlayFor(0);
    for (let i = 0; i < 20; i++) {
      frame(output, Buffer.alloc(100));
      await sink.until(i + 1);
    }
    far.underlays[0]?.pause();
    for (let i = 0; i < 400; i++) frame(output, Buffer.alloc(50_000));
    expect(await slow.closed).toMatchObject({ code: "WRITE_TIMEOUT" });
  });

  test("does not keep those waiting for space when it goes away", async () => {
    const channel = await listener.dial();
    const other = await listener.channel();
    other.underlays[0]?.pause();
    const { output } = channel.underlayFor(0);
    while (!output.isFull) frame(output, Buffer.alloc(50_000));
    const drained = new Promise<void>((resolve) => output.onDrain(resolve));
    channel.close();
    await drained;
    await channel.closed;
  });
});
