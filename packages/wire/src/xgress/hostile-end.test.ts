/** Another end that sends what no honest one does: each case has its outcome in docs/protocol/data-path.md, "What is not to be expected". */
import { afterEach, describe, expect, it, vi } from "vitest";
import { ackOf } from "../testing/ack-of.ts";
import { Arrival, ReceiveBuffer } from "./receive/receive-buffer.ts";
import { SendBuffer } from "./send/send-buffer.ts";
import { ScanTimer } from "./timers.ts";

afterEach(() => vi.restoreAllMocks());

describe("acknowledgements of what was never sent", () => {
  it("release nothing, open no window and end nothing; what was sent is sent again until it is acknowledged", () => {
    const released: string[] = [];
    const buffer = new SendBuffer<string>({ txPortalStartSize: 100, retxFloorMs: 0 }, (payload) =>
      released.push(payload),
    );
    buffer.add("a", 100, 0);
    buffer.add("b", 100, 0);
    const before = buffer.detail();
    for (const wild of [2, 3, 1_000_000, 2_147_483_647, -1, -2_147_483_648]) buffer.acknowledge(ackOf([wild]), 1);
    expect(released).toEqual([]);
    expect([buffer.inFlight, buffer.canAdd]).toEqual([2, false]);
    expect(buffer.detail().windowSize).toBe(before.windowSize);
    const again: number[] = [];
    // None of them says either that something was lost.
    expect(buffer.retransmit(100_000, (_payload, sequence) => again.push(sequence) > 0)).toBe(1);
    expect(again).toEqual([0]);
    buffer.acknowledge(ackOf([0, 1]), 100_001);
    expect([released, buffer.inFlight]).toEqual([["a", "b"], 0]);
  });

  it("a second time release once", () => {
    const released: string[] = [];
    const buffer = new SendBuffer<string>({}, (payload) => released.push(payload));
    buffer.add("a", 10, 0);
    for (let i = 0; i < 200; i++) buffer.acknowledge(ackOf([0, 0]), i);
    expect(released).toEqual(["a"]);
    expect(buffer.add("b", 10, 300)).toBe(1);
  });
});

describe("a window that shrinks below what is in flight", () => {
  it("holds the sender back, never forgets a payload, and lets one pass when nothing is in flight", () => {
    const buffer = new SendBuffer<string>({ txPortalMaxSize: 1_000 });
    for (let i = 0; i < 5; i++) buffer.add("x", 100, 0);
    buffer.acknowledge(ackOf([0], { held: 4_294_967_295 }), 1);
    expect([buffer.canAdd, buffer.blockedByPeer, buffer.inFlight]).toEqual([false, true, 4]);
    buffer.acknowledge(ackOf([1, 2, 3, 4], { held: 4_294_967_295 }), 2);
    expect([buffer.inFlight, buffer.canAdd]).toEqual([0, true]);
    buffer.add("y", 100, 3);
    expect(buffer.canAdd).toBe(false);
    buffer.acknowledge(ackOf([]), 4);
    expect(buffer.canAdd).toBe(true);
  });
});

describe("sequences that jump", () => {
  it.each([
    ["far ahead", 2_147_483_647],
    ["below zero", -5],
    ["to the lowest there is", -2_147_483_648],
  ])("%s: nothing is delivered out of order, and what is due is still taken", (_what, wild) => {
    const buffer = new ReceiveBuffer<string>({ rxBufferSize: 1_000 });
    const arrival = buffer.arrive(wild, 10);
    expect([Arrival.Early, Arrival.Duplicate, Arrival.NoRoom]).toContain(arrival);
    if (arrival === Arrival.Early) buffer.keep(wild, "wild", 10);
    expect(buffer.takeNext()).toBeUndefined();
    expect(buffer.arrive(0, 10)).toBe(Arrival.Next);
    expect(buffer.takeNext()).toBeUndefined();
    expect(buffer.arrive(1, 10)).toBe(Arrival.Next);
  });

  it("with gaps everywhere hold a bounded number of bytes and payloads", () => {
    const buffer = new ReceiveBuffer<string>({ rxBufferSize: 10_000, maxPayloads: 100 });
    let refused = 0;
    for (let sequence = 2; sequence < 100_000; sequence += 2) {
      const arrival = buffer.arrive(sequence, 50);
      if (arrival === Arrival.Early) buffer.keep(sequence, "", 50);
      else refused++;
    }
    expect(buffer.earlyCount).toBeLessThanOrEqual(100);
    expect(buffer.held).toBeLessThanOrEqual(10_050);
    expect(refused).toBeGreaterThan(49_000);
  });
});

describe("a jump of the system's clock", () => {
  it.each([
    ["ahead", 86_400_000],
    ["back", -86_400_000],
  ])("%s by a day is not seen by who looks for payloads to send again", async (_what, jump) => {
    const scans = new ScanTimer();
    const seen: number[] = [];
    const third = Promise.withResolvers<void>();
    const scanned = {
      scan: (now: number) => {
        seen.push(now);
        if (seen.length === 1) {
          const real = Date.now;
          vi.spyOn(Date, "now").mockImplementation(() => real() + jump);
        }
        if (seen.length === 3) third.resolve();
      },
    };
    scans.add(scanned);
    await third.promise;
    scans.delete(scanned);
    const [first = 0, , last = 0] = seen;
    expect(last).toBeGreaterThan(first);
    expect(last - first).toBeLessThan(60_000);
  });
});
