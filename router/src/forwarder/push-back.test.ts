import {
  FairOutput,
  FramePool,
  FrameQueue,
  type FrameView,
  type Output,
  type Underlay,
  type Waiter,
  XgressFlag,
} from "@sallyport/wire";
import { expect, test, vi } from "vitest";
import { Circuit } from "./circuit.ts";
import { CountedOutput, linkCounters } from "./counted-output.ts";
import { OutputDestination } from "./output-destination.ts";
import { copyWithoutHeartbeat, RoutingHeaders } from "./routing-headers.ts";
import { TransitBudget, TransitQueue, TransitShare } from "./transit-queue.ts";

/** A connection whose room the test decides. */
class ScriptedUnderlay {
  readonly slab = Buffer.alloc(1024 * 1024);
  readonly written: string[] = [];
  isClosed = false;
  paused = 0;
  room = 0;
  #at = 0;
  #drained: (() => void)[] = [];
  readonly output: Output;

  constructor() {
    const self = this;
    this.output = {
      slab: this.slab,
      pending: 0,
      nextSequence: () => 7,
      get isFull() {
        return self.room <= 0;
      },
      reserve(n) {
        self.room--;
        const at = self.#at;
        self.#at += n;
        self.written.push(String(n));
        return at;
      },
      onDrain: (cb) => this.#drained.push(cb),
      whenTaken: (cb) => queueMicrotask(cb),
    };
  }

  drain(room: number): void {
    this.room = room;
    for (const cb of this.#drained.splice(0)) cb();
  }

  pause(): void {
    this.paused++;
  }

  resume(): void {
    this.paused--;
  }

  get asUnderlay(): Underlay {
    return this as unknown as Underlay;
  }
}

function waiter(name: string, turns: number, log: string[]): Waiter & { gone: boolean } {
  let left = turns;
  const made = {
    gone: false,
    takeTurn(): boolean {
      log.push(name);
      connection?.output.reserve(1);
      return --left > 0;
    },
    outputGone(): void {
      made.gone = true;
    },
  };
  return made;
}

let connection: ScriptedUnderlay | undefined;

function frame(length: number): FrameView {
  const buffer = Buffer.alloc(length);
  return {
    buffer,
    start: 0,
    contentType: 1100,
    sequence: 1,
    headersStart: 20,
    headersEnd: 20,
    bodyStart: 20,
    end: length,
    carriesHeartbeat: false,
  };
}

test("who waits gets turns one by one, and a circuit with much to send does not starve one with little", () => {
  connection = new ScriptedUnderlay();
  const fair = new FairOutput(connection.asUnderlay);
  const log: string[] = [];
  fair.wait(waiter("big", 100, log));
  fair.wait(waiter("small", 2, log));
  expect(fair.isFull).toBe(true);
  connection.drain(3);
  expect(log).toEqual(["big", "small", "big"]);
  connection.drain(3);
  expect(log.slice(3)).toEqual(["small", "big", "big"]);
  expect(fair.waiting).toBe(1);
});

test("who waits for a connection that is lost is told", () => {
  connection = new ScriptedUnderlay();
  const fair = new FairOutput(connection.asUnderlay);
  const one = waiter("one", 1, []);
  fair.wait(one);
  connection.isClosed = true;
  connection.drain(0);
  expect(one.gone).toBe(true);
});

test("a connection that ends while it is shared hands its waiters on, also one that always wants another turn", () => {
  const ending = new ScriptedUnderlay();
  const fair = new FairOutput(ending.asUnderlay);
  let turns = 0;
  let gone = 0;
  fair.wait({
    takeTurn: () => {
      turns++;
      ending.isClosed = true;
      return true;
    },
    outputGone: () => gone++,
  });
  ending.drain(5);
  expect([turns, gone, fair.waiting]).toEqual([1, 1, 0]);
});

test("a frame that is given back twice is handed out once", () => {
  const pool = new FramePool();
  const kept = pool.take(100);
  pool.give(kept);
  pool.give(kept);
  expect(pool.givenTwice).toBe(1);
  expect(pool.take(100)).toBe(kept);
  expect(pool.take(100)).not.toBe(kept);
  pool.give(kept);
  expect(pool.givenTwice).toBe(1);
});

test("waiting payloads leave in order, and the source is stopped when all together hold too much", () => {
  connection = new ScriptedUnderlay();
  const source = new ScriptedUnderlay();
  const budget = new TransitBudget(3_000);
  const circuit = new Circuit("c1", "ctrl", 0);
  const queue = new TransitQueue(circuit.route("a", "b"), new FramePool(), budget);
  const fair = new CountedOutput(connection.asUnderlay, linkCounters());
  for (const size of [1_001, 1_002, 1_003]) queue.hold(frame(size), fair, source.asUnderlay);
  expect(source.paused).toBe(1);
  expect(budget.bytes).toBe(3_006);
  connection.drain(1);
  expect(connection.written).toEqual(["1001"]);
  expect(source.paused).toBe(0);
  connection.drain(5);
  expect(connection.written).toEqual(["1001", "1002", "1003"]);
  expect(budget.bytes).toBe(0);
});

test("one destination has a share of the memory and no more: what goes elsewhere is neither dropped nor stopped", () => {
  const [slow, fast, source] = [new ScriptedUnderlay(), new ScriptedUnderlay(), new ScriptedUnderlay()];
  const budget = new TransitBudget(10_000);
  const share = new TransitShare(budget, 3_000);
  const circuits = ["c1", "c2", "c3"].map((id) => new Circuit(id, "ctrl", 0).route("a", "b"));
  const queues = circuits.map((forward) => new TransitQueue(forward, new FramePool(), share));
  const toSlow = new CountedOutput(slow.asUnderlay, linkCounters());
  const held = queues.map((queue) => queue.hold(frame(1_500), toSlow, source.asUnderlay));
  expect([held, budget.bytes, source.paused]).toEqual([[true, true, false], 3_000, 0]);
  const other = new TransitQueue(new Circuit("c4", "ctrl", 0).route("a", "c"), new FramePool(), budget);
  expect(other.hold(frame(1_501), new CountedOutput(fast.asUnderlay, linkCounters()), source.asUnderlay)).toBe(true);
  queues[0]?.clear();
  expect(queues[2]?.hold(frame(1_500), toSlow, source.asUnderlay)).toBe(true);
  for (const queue of [...queues, other]) queue.clear();
  expect(budget.bytes).toBe(0);
});

test("a source that waits too long is read again and its payloads are dropped until there is room: no deadlock", () => {
  vi.useFakeTimers();
  try {
    connection = new ScriptedUnderlay();
    const source = new ScriptedUnderlay();
    const budget = new TransitBudget(1_000, 100);
    const queue = new TransitQueue(new Circuit("c1", "ctrl", 0).route("a", "b"), new FramePool(), budget);
    const fair = new CountedOutput(connection.asUnderlay, linkCounters());
    queue.hold(frame(900), fair, source.asUnderlay);
    queue.hold(frame(901), fair, source.asUnderlay);
    expect(source.paused).toBe(1);
    vi.advanceTimersByTime(100);
    expect(source.paused).toBe(0);
    queue.hold(frame(902), fair, source.asUnderlay);
    expect(budget.dropped).toBe(1);
    connection.drain(2);
    expect(connection.written).toEqual(["900", "901"]);
    connection.drain(0);
    queue.hold(frame(903), fair, source.asUnderlay);
    expect(budget.dropped).toBe(1);
    queue.clear();
    expect(budget.bytes).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test("memory of kept frames is handed out again", () => {
  const pool = new FramePool({ maxFree: 40_000 });
  const first = pool.take(16_384);
  pool.give(first);
  expect(pool.take(17_000)).toBe(first);
  const huge = pool.take(1_000_000);
  pool.give(huge);
  expect(pool.freeBytes).toBe(0);
});

test("the queue of kept frames keeps its order while it grows", () => {
  const pool = new FramePool();
  const queue = new FrameQueue();
  const frames = Array.from({ length: 100 }, (_, i) => pool.take(20 + i).copyOf(frame(20 + i)));
  for (const one of frames.slice(0, 10)) queue.push(one);
  for (let i = 0; i < 5; i++) expect(queue.shift()).toBe(frames[i]);
  for (const one of frames.slice(10)) queue.push(one);
  expect(queue.count).toBe(95);
  for (let i = 5; i < 100; i++) expect(queue.shift()).toBe(frames[i]);
  expect(queue.bytes).toBe(0);
});

function payloadFrame(entries: [number, Buffer][], body: string): FrameView {
  const headers = Buffer.concat(
    entries.map(([key, value]) => {
      const prefix = Buffer.alloc(8);
      prefix.writeInt32LE(key, 0);
      prefix.writeInt32LE(value.length, 4);
      return Buffer.concat([prefix, value]);
    }),
  );
  const prefix = Buffer.from("0306090c4c0400002900000000000000000000000000", "hex").subarray(0, 20);
  const head = Buffer.from(prefix);
  head.writeInt32LE(headers.length, 12);
  head.writeInt32LE(body.length, 16);
  const buffer = Buffer.concat([Buffer.from("xx"), head, headers, Buffer.from(body)]);
  return {
    buffer,
    start: 2,
    contentType: 1100,
    sequence: 41,
    headersStart: 22,
    headersEnd: 22 + headers.length,
    bodyStart: 22 + headers.length,
    end: buffer.length,
    carriesHeartbeat: true,
  };
}

test("the circuit id is found wherever it stands, and a frame without one is refused", () => {
  const flags = Buffer.from([16, 0, 0, 0]);
  const headers = new RoutingHeaders();
  const view = payloadFrame(
    [
      [2258, flags],
      [2016, flags],
      [2256, Buffer.from("5esv560XXd312KZWHbukBN")],
    ],
    "hello",
  );
  expect(headers.read(view)).toBe(true);
  expect(view.buffer.toString("latin1", headers.idStart, headers.idEnd)).toBe("5esv560XXd312KZWHbukBN");
  expect(headers.flags).toBe(16);
  expect(headers.read(payloadFrame([[2258, flags]], "hello"))).toBe(false);
  expect(headers.read(payloadFrame([[2256, Buffer.alloc(5_000, 65)]], "hello"))).toBe(false);
});

test("heartbeat headers stay on the channel they came on", () => {
  const beat = Buffer.alloc(8, 1);
  const id = Buffer.from("circuit");
  const view = payloadFrame(
    [
      [5, beat],
      [2256, id],
      [6, beat],
    ],
    "hello",
  );
  const expected = payloadFrame([[2256, id]], "hello");
  const target = Buffer.alloc(view.end);
  const length = copyWithoutHeartbeat(view, target);
  expect(target.subarray(0, length)).toEqual(expected.buffer.subarray(expected.start));
});

test("what is held leaves also when nothing but retransmissions comes, which are dropped meanwhile", () => {
  const link = new ScriptedUnderlay();
  const counters = linkCounters();
  const output = new CountedOutput(link.asUnderlay, counters);
  const pool = new FramePool();
  class Link extends OutputDestination {
    readonly kind = "link";
    readonly address = "link";
    readonly counters = counters;
    outputFor(): CountedOutput {
      return output;
    }
    ack(): void {}
    control(): void {}
    write(kept: FrameView, underlay: Underlay): void {
      underlay.output.reserve(kept.end);
    }
  }
  const destination = new Link({ pool, budget: new TransitBudget() });
  const forward = new Circuit("c", "ctrl", 0).route("from", "link");
  const source = new ScriptedUnderlay().asUnderlay;
  destination.payload(frame(100), forward, 0, source);
  // Whatever made it lose its place among those who wait.
  output.leave(forward.held as TransitQueue);
  destination.payload(frame(100), forward, XgressFlag.Retransmit, source);
  expect(counters.droppedRetransmits).toBe(1);
  link.drain(10);
  expect([link.written, forward.held?.count]).toEqual([["100"], 0]);
  expect(pool.lentBytes).toBe(0);
});
