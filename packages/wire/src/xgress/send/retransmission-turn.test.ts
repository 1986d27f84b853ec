import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { XgressFlag } from "../../catalogue/xgress.ts";
import { FrameParser } from "../../frame/frame.ts";
import type { Waiter } from "../../socket/fair-output.ts";
import { xgressCounters } from "../counters.ts";
import { FramePool } from "../frames/frame-pool.ts";
import { PayloadView, readPayload } from "../frames/payload.ts";
import { flowDefaults } from "../options.ts";
import type { XgressPath } from "../path.ts";
import { AckBatch, AckTemplate } from "../receive/acknowledgement.ts";
import { ScanTimer } from "../timers.ts";
import { PayloadSender } from "./payload-sender.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
});

afterEach(() => {
  vi.useRealTimers();
});

test("where others always wait, what must be sent again waits, too, and leaves in its turns", () => {
  const repeated: number[] = [];
  const waiting = new Set<Waiter>();
  const view = new PayloadView();
  const state = { isOpen: true };
  const path: XgressPath = {
    get isOpen() {
      return state.isOpen;
    },
    wait: (waiter) => waiting.add(waiter),
    payload() {},
    retransmit: (frame) => {
      readPayload(frame, view);
      expect(view.flags & XgressFlag.Retransmit).not.toBe(0);
      repeated.push(view.sequence);
    },
    report: () => false,
    ack() {},
    control() {},
    close() {},
  };
  const pool = new FramePool();
  const counters = xgressCounters();
  const options = flowDefaults;
  const sender = new PayloadSender({ circuitId: "c", isTerminator: false, path, pool, options, counters, onRoom() {} });
  sender.start();
  for (const text of ["one", "two", "three", "four"]) sender.data(Buffer.from(text), 0, text.length, -1, -1, -1);
  // The fourth overtook the others: they were lost.
  const acks = new AckBatch();
  acks.add(3, 0, 4);
  const template = new AckTemplate("c", 0);
  const ack = Buffer.alloc(template.byteLength(1));
  acks.write(template, ack, 0, 0, 0);
  new FrameParser({ maxHeaders: 1e4, maxBody: 1e4 }, (frame) => sender.acknowledge(frame, 0)).push(ack);
  state.isOpen = false;
  vi.advanceTimersByTime(3_000);
  sender.scan(performance.now());
  expect([repeated, waiting.size]).toEqual([[], 1]);
  // The output drains: each in the ring sends one at a time.
  state.isOpen = true;
  const [waiter] = waiting;
  expect([waiter?.takeTurn(), repeated]).toEqual([true, [0]]);
  expect([waiter?.takeTurn(), repeated]).toEqual([true, [0, 1]]);
  expect([waiter?.takeTurn(), repeated]).toEqual([true, [0, 1, 2]]);
  expect([waiter?.takeTurn(), repeated]).toEqual([false, [0, 1, 2]]);
  sender.stop();
  expect(pool.lentBytes).toBe(0);
});

test("a program that was busy reads what has arrived before it sends anything again", () => {
  const scans = new ScanTimer();
  const seen: number[] = [];
  const scanned = { scan: (now: number) => seen.push(now) };
  scans.add(scanned);
  vi.advanceTimersByTime(100);
  expect(seen.length).toBe(1);
  const stall = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 700);
  vi.advanceTimersByTime(100);
  expect(seen.length).toBe(1);
  // Busy again: it is not put off a second time.
  stall.mockReturnValue(performance.now() + 700);
  vi.advanceTimersByTime(100);
  expect(seen.length).toBe(2);
  stall.mockRestore();
  scans.delete(scanned);
});
