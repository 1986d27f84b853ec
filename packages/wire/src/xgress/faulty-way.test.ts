import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { XgressHeader, XgressType } from "../catalogue/xgress.ts";
import type { FrameView } from "../frame/frame.ts";
import type { Waiter } from "../socket/fair-output.ts";
import { xgressCounters } from "./counters.ts";
import { FramePool, KeptFrame } from "./frames/frame-pool.ts";
import type { Delivery, LocalPort } from "./local-port.ts";
import { xgressDefaults } from "./options.ts";
import type { Side, XgressEnd, XgressFabric, XgressPath } from "./path.ts";
import { AckScheduler, ScanTimer } from "./timers.ts";
import { Xgress } from "./xgress.ts";

const KIB = 1024;
const PIECE = 16_279;

/** What goes wrong between two ends; probabilities of one frame. */
interface Faults {
  readonly loss: number;
  readonly repeat: number;
  /** Longest time a frame takes; shorter ones overtake it. */
  readonly delayMs: number;
  /** Frames that fit a router between; what comes when it is full is dropped. */
  readonly queue: number;
  /** Frames that leave it in a millisecond. */
  readonly rate: number;
  /** Everything is lost meanwhile. */
  readonly outage: readonly [from: number, to: number];
  /** A router between writes its own clock over the sender's. */
  readonly stampsAnew: boolean;
  /** How often the sender's own connection is full. */
  readonly full: number;
  /** How often the reader has no room. */
  readonly refusal: number;
}

const calm: Faults = {
  loss: 0,
  repeat: 0,
  delayMs: 1,
  queue: 100_000,
  rate: 1_000,
  outage: [0, 0],
  stampsAnew: false,
  full: 0,
  refusal: 0,
};

/** Numbers in [0, 1) that follow from a seed. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** One direction between two ends. */
class FaultyWay implements XgressPath {
  readonly #random: () => number;
  readonly #faults: Faults;
  readonly #waiters = new Set<Waiter>();
  #queued = 0;
  #freeAt = 0;
  #isFull = false;
  target: XgressEnd | undefined;

  constructor(random: () => number, faults: Faults) {
    this.#random = random;
    this.#faults = faults;
  }

  get isOpen(): boolean {
    if (!this.#isFull && this.#random() < this.#faults.full) {
      this.#isFull = true;
      setTimeout(() => this.#drain(), this.#random() * 300);
    }
    return !this.#isFull;
  }

  wait(waiter: Waiter): void {
    this.#waiters.add(waiter);
    if (!this.#isFull) setTimeout(() => this.#drain(), 0);
  }

  payload(frame: FrameView): void {
    this.#carry(frame);
  }

  retransmit(frame: FrameView): void {
    this.#carry(frame);
  }

  ack(frame: FrameView): void {
    this.#carry(frame);
  }

  report(): false {
    return false;
  }

  control(): void {}

  /** The owner of the circuit is told, and takes it down everywhere. */
  close(report: boolean): void {
    if (!report) return;
    setTimeout(() => {
      if (this.target instanceof Xgress) unrouteWhenRead(this.target);
    }, 200);
  }

  #drain(): void {
    this.#isFull = false;
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const waiter of waiters) if (waiter.takeTurn()) this.wait(waiter);
  }

  #carry(frame: FrameView): void {
    const { loss, repeat, queue, rate, outage, delayMs, stampsAnew } = this.#faults;
    const now = performance.now();
    if (this.#queued >= queue || this.#random() < loss || (now >= outage[0] && now < outage[1])) return;
    const copy = new KeptFrame(frame.end - frame.start).copyOf(frame);
    if (stampsAnew && copy.contentType === XgressType.Payload) stampAnew(copy);
    this.#queued++;
    this.#freeAt = Math.max(this.#freeAt, now) + 1 / rate;
    const leaves = this.#freeAt - now;
    setTimeout(() => this.#queued--, leaves);
    const copies = this.#random() < repeat ? 2 : 1;
    for (let i = 0; i < copies; i++) {
      setTimeout(() => this.#arrive(copy), leaves + this.#random() * delayMs);
    }
  }

  #arrive(frame: FrameView): void {
    if (frame.contentType === XgressType.Payload) this.target?.payload(frame);
    else this.target?.ack(frame);
  }
}

/** What has arrived can still be read. */
function unrouteWhenRead(end: Xgress): void {
  end.cut();
  if (end.held === 0) end.unrouted();
  else setTimeout(() => unrouteWhenRead(end), 100);
}

function stampAnew(frame: KeptFrame): void {
  const { buffer } = frame;
  for (let at = frame.headersStart; at < frame.headersEnd; at += 8 + buffer.readInt32LE(at + 4)) {
    if (buffer.readInt32LE(at) === XgressHeader.Rtt)
      buffer.writeUInt16LE((performance.now() + 40_000) & 0xffff, at + 8);
  }
}

/** An application: writes a number of pieces, checks what it reads. */
class Application implements LocalPort {
  readonly xgress: Xgress;
  readonly #random: () => number;
  readonly #faults: Faults;
  readonly #pieces: number;
  readonly #piece = Buffer.alloc(PIECE);
  #written = 0;
  read = 0;
  sawEnd = false;

  constructor(fabric: XgressFabric, side: Side, random: () => number, faults: Faults, pieces: number) {
    this.#random = random;
    this.#faults = faults;
    this.#pieces = pieces;
    this.xgress = new Xgress({
      fabric,
      circuitId: "circuit",
      address: side,
      side,
      port: this,
      options: xgressDefaults,
    });
  }

  resume(): void {
    while (this.#written < this.#pieces) {
      this.#piece.writeUInt32LE(this.#written++);
      if (!this.xgress.write(this.#piece, 0, PIECE)) return;
    }
    this.xgress.endInput();
  }

  deliver(d: Delivery): boolean {
    if (d.end === d.start) return true;
    if (this.#random() < this.#faults.refusal) {
      setTimeout(() => this.xgress.deliverHeld(), this.#random() * 200);
      return false;
    }
    expect(d.end - d.start).toBe(PIECE);
    expect(d.buffer.readUInt32LE(d.start)).toBe(this.read++);
    return true;
  }

  endOfData(): void {
    this.sawEnd = true;
  }

  closed(): void {
    // The mark of an end that had everything is not waited for: its circuit is taken down.
    this.sawEnd = true;
  }

  stopSending(): void {}

  trace(): undefined {
    return undefined;
  }

  traceAnswered(): void {}
}

/** Has both ends send `pieces`, and ends both; returns what was seen, after so many milliseconds at most. */
function exchange(seed: number, faults: Faults, o: { pieces?: number; budget?: number; withinMs?: number } = {}) {
  const random = randomOf(seed);
  const { pieces = 100, budget = 24 * KIB * KIB, withinMs = 300_000 } = o;
  const pool = new FramePool({ budget });
  const counters = xgressCounters();
  const acks = new AckScheduler();
  const scans = new ScanTimer();
  const ways = [new FaultyWay(random, faults), new FaultyWay(random, faults)] as const;
  const fabricOf = (own: number): XgressFabric => {
    const register = (end: XgressEnd): XgressPath => {
      (ways[1 - own] as FaultyWay).target = end;
      return ways[own] as FaultyWay;
    };
    return { pool, counters, acks, scans, register };
  };
  const near = new Application(fabricOf(0), "initiator", random, faults, pieces);
  const far = new Application(fabricOf(1), "terminator", random, faults, pieces);
  near.xgress.start();
  near.resume();
  far.resume();
  const isDone = (): boolean => near.read === pieces && far.read === pieces && near.sawEnd && far.sawEnd;
  const start = performance.now();
  while (!isDone() && performance.now() - start < withinMs) vi.advanceTimersByTime(20);
  const tookMs = performance.now() - start;
  const result = { read: [near.read, far.read], sawEnd: [near.sawEnd, far.sawEnd] };
  near.xgress.close("done");
  far.xgress.close("done");
  vi.advanceTimersByTime(40_000);
  acks.close();
  return { ...result, tookMs, counters, lent: pool.lentBytes, whole: { read: [pieces, pieces], sawEnd: [true, true] } };
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance"] });
  vi.advanceTimersByTime(5_000);
});

afterEach(() => {
  vi.useRealTimers();
});

test.each(Array.from({ length: 40 }, (_, seed) => seed))(
  "whatever is lost, repeated, late or refused comes in the end: seed %i",
  (seed) => {
    const random = randomOf(seed * 7 + 1);
    const outageFrom = 5_000 + random() * 500;
    const faults: Faults = {
      loss: random() < 0.5 ? 0 : random() * 0.2,
      repeat: random() < 0.5 ? 0 : random() * 0.2,
      delayMs: random() * 80,
      queue: random() < 0.5 ? 64 : 1_000,
      rate: 1 + random() * 40,
      outage: [outageFrom, outageFrom + (random() < 0.5 ? 0 : random() * 5_000)],
      stampsAnew: random() < 0.5,
      full: random() < 0.5 ? 0 : 0.05,
      refusal: random() < 0.5 ? 0 : 0.05,
    };
    const budget = random() < 0.3 ? 100 * KIB : 24 * KIB * KIB;
    const { read, sawEnd, whole, lent } = exchange(seed, faults, { budget });
    expect({ read, sawEnd }).toEqual(whole);
    expect(lent).toBe(0);
  },
);

test("on a clean way nothing is sent twice", () => {
  const { read, sawEnd, whole, counters } = exchange(1, { ...calm, rate: 4 }, { pieces: 1_000 });
  expect({ read, sawEnd }).toEqual(whole);
  expect([counters.retransmissions, counters.duplicates]).toEqual([0, 0]);
});

test("a router that writes its own clock over ours does not make the sender wait for seconds", () => {
  const faults = { ...calm, queue: 64, rate: 4, stampsAnew: true };
  const { read, sawEnd, whole, tookMs } = exchange(1, faults, { pieces: 500 });
  expect({ read, sawEnd }).toEqual(whole);
  // With the foreign clock taken for ours, the first loss is noticed after ten seconds.
  expect(tookMs).toBeLessThan(9_000);
});
