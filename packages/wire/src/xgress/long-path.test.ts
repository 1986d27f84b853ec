/** A long way costs time, not speed: what a circuit carries is its window in each round trip (docs/protocol/xgress.md, "Sender"). */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { XgressFlag } from "../catalogue/xgress.ts";
import type { FrameView } from "../frame/frame.ts";
import { JoinedFabric } from "../testing/joined-fabric.ts";
import { KeptFrame } from "./frames/frame-pool.ts";
import type { Delivery, LocalPort } from "./local-port.ts";
import { xgressDefaults } from "./options.ts";
import type { Side, XgressEnd, XgressPath } from "./path.ts";
import { Xgress } from "./xgress.ts";

const CHUNK = Buffer.alloc(16_384);
const WINDOW = xgressDefaults.txPortalStartSize;

/** Everything arrives after so many milliseconds, in order; payloads that `isLost` says so of do not. */
class LongFabric extends JoinedFabric {
  retransmissions = 0;
  isLost = (_flags: number): boolean => false;
  readonly #delayMs: number;

  constructor(delayMs: number) {
    super();
    this.#delayMs = delayMs;
  }

  override register(end: XgressEnd): XgressPath {
    const path = super.register(end);
    const later = (frame: FrameView, arrive: (copy: FrameView) => void): void => {
      const copy = new KeptFrame(frame.end - frame.start).copyOf(frame);
      setTimeout(() => arrive(copy), this.#delayMs);
    };
    const payload = (frame: FrameView, flags: number): void => {
      if ((flags & XgressFlag.Retransmit) !== 0) this.retransmissions++;
      if (!this.isLost(flags)) later(frame, (copy) => path.payload(copy, flags));
    };
    return {
      ...path,
      payload,
      retransmit: (frame, flags) => payload(frame, flags | XgressFlag.Retransmit),
      ack: (frame) => later(frame, (copy) => path.ack(copy)),
    };
  }
}

class Port implements LocalPort {
  bytes = 0;
  onResume = () => {};
  deliver(d: Delivery): boolean {
    this.bytes += d.end - d.start;
    return true;
  }
  endOfData(): void {}
  resume(): void {
    this.onResume();
  }
  stopSending(): void {}
  closed(): void {}
  trace(): undefined {}
  traceAnswered(): void {}
}

let fabric: LongFabric;

beforeEach(() => {
  vi.useFakeTimers();
  // A clock of 0 would be none.
  vi.advanceTimersByTime(1);
});

afterEach(() => {
  fabric.close();
  expect(fabric.pool.lentBytes).toBe(0);
  vi.useRealTimers();
});

/** A circuit whose source never runs dry from its first moment on, and whose reader takes everything. */
function busyCircuit(delayMs: number, isLost = (_flags: number): boolean => false): { readonly got: Port } {
  fabric = new LongFabric(delayMs);
  fabric.isLost = isLost;
  const end = (side: Side) => {
    const port = new Port();
    return { port, xgress: new Xgress({ fabric, circuitId: "c", address: side, side, port, options: xgressDefaults }) };
  };
  const from = end("initiator");
  const to = end("terminator");
  from.xgress.start();
  from.port.onResume = () => {
    while (from.xgress.write(CHUNK, 0, CHUNK.length));
  };
  from.port.onResume();
  return { got: to.port };
}

/** Bytes that arrive in so many round trips after the first ones. */
function carried(got: Port, delayMs: number, roundTrips: number): number {
  vi.advanceTimersByTime(4 * delayMs);
  const before = got.bytes;
  vi.advanceTimersByTime(roundTrips * 2 * delayMs);
  return got.bytes - before;
}

test.each([
  [5, 0],
  [50, 0],
  [150, 2],
  [300, 6],
])(
  "%i ms each way: a window in each round trip, and nothing is sent twice but each end's first payload",
  (delayMs, repeated) => {
    const { got } = busyCircuit(delayMs);
    const bytes = carried(got, delayMs, 20);
    // Acknowledgements wait for company, 3 ms at most: so much longer is a round trip.
    expect(bytes).toBeGreaterThan((19 * WINDOW * 2 * delayMs) / (2 * delayMs + 4));
    expect(bytes).toBeLessThan(21 * (WINDOW + CHUNK.length));
    expect(fabric.retransmissions).toBeLessThanOrEqual(repeated);
  },
);

test("the first payloads are lost on a short way: the rest follows as soon as the first was acknowledged", () => {
  const lost = { left: 100 };
  const { got } = busyCircuit(5, () => lost.left-- > 0);
  vi.advanceTimersByTime(1_000);
  expect(got.bytes).toBeGreaterThan(10 * WINDOW);
});

test("a window that shrank grows again in a few round trips", () => {
  const { got } = busyCircuit(50);
  vi.advanceTimersByTime(1_000);
  // An outage, in which everything is sent again and again.
  fabric.isLost = () => true;
  vi.advanceTimersByTime(2_000);
  fabric.isLost = () => false;
  vi.advanceTimersByTime(2_000);
  const before = fabric.retransmissions;
  expect(before).toBeGreaterThan(100);
  expect(carried(got, 50, 20)).toBeGreaterThan(0.9 * 20 * WINDOW);
  expect(fabric.retransmissions).toBe(before);
});
