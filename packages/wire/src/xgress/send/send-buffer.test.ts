import { describe, expect, it } from "vitest";
import { ackOf } from "../../testing/ack-of.ts";
import { ms16 } from "../frames/payload.ts";
import { echoOf } from "../receive/acknowledgement.ts";
import { SendBuffer } from "./send-buffer.ts";

const exact = { retxFloorMs: 0 };

/** One more payload is sent and acknowledged at once: what was sent before it and has no answer was lost. */
function overtake<T>(buffer: SendBuffer<T>, payload: T, now: number): void {
  buffer.acknowledge(ackOf([buffer.add(payload, 0, now)]), now);
}

describe("SendBuffer", () => {
  it("admits one payload beyond the window, and again when enough is acknowledged", () => {
    const buffer = new SendBuffer<string>({ txPortalStartSize: 100 });
    expect(buffer.add("a", 100, 0)).toBe(0);
    expect(buffer.canAdd).toBe(true);
    expect(buffer.add("b", 50, 0)).toBe(1);
    expect([buffer.canAdd, buffer.blockedByWindow]).toEqual([false, true]);
    buffer.acknowledge(ackOf([1]), 1);
    expect(buffer.canAdd).toBe(true);
  });

  it("always admits one when nothing is in flight, however large", () => {
    const buffer = new SendBuffer<string>({ txPortalStartSize: 10 });
    expect(buffer.canAdd).toBe(true);
    buffer.add("big", 1_000, 0);
    expect(buffer.canAdd).toBe(false);
    buffer.acknowledge(ackOf([0]), 1);
    expect(buffer.canAdd).toBe(true);
  });

  it("waits while the peer's buffer is too full, until an empty acknowledgement reports less", () => {
    const buffer = new SendBuffer<string>({ txPortalMaxSize: 1_000 });
    buffer.add("a", 10, 0);
    buffer.add("b", 10, 0);
    buffer.acknowledge(ackOf([0], { held: 1_001 }), 1);
    expect([buffer.canAdd, buffer.blockedByPeer]).toEqual([false, true]);
    buffer.acknowledge(ackOf([], { held: 1_000 }), 2);
    expect(buffer.canAdd).toBe(true);
  });

  it("may be given more while it sends again: what was sent again is noted for the right payload", () => {
    const buffer = new SendBuffer<number>();
    buffer.add(-1, 0, 0);
    buffer.acknowledge(ackOf([0]), 0);
    for (let i = 0; i < 64; i++) buffer.add(i, 0, 0);
    overtake(buffer, 64, 0);
    let added = false;
    const again = buffer.retransmit(1_000, () => {
      if (!added) for (let i = 64; i < 200; i++) buffer.add(i, 0, 1_000);
      added = true;
      return true;
    });
    expect(again).toBe(64);
    expect(buffer.retransmit(1_100, () => true)).toBe(0);
  });

  it("shrinks its window by retransmissions and grows it by acknowledged bytes, ever faster", () => {
    const buffer = new SendBuffer<number>(exact);
    const window = () => buffer.detail().windowSize;
    let now = 0;
    buffer.add(0, 0, now);
    for (let turn = 0; turn < 128; turn++) {
      now += 1_000;
      expect(buffer.retransmit(now, () => true)).toBe(1);
      if (turn === 63) expect(window()).toBe(3_145_728);
    }
    expect(window()).toBe(2_359_296);
    buffer.acknowledge(ackOf([0]), now);
    const run = (count: number) => {
      for (let index = 0; index < count; index++) {
        buffer.acknowledge(ackOf([buffer.add(index, 10_240, now)]), now);
      }
    };
    run(27);
    expect(window()).toBe(2_359_296 + 27 * 10_240);
    run(1);
    const grown = window();
    run(27);
    expect(window()).toBeGreaterThan(grown + 27 * 10_240);
  });

  it("follows the worked example of window growth", () => {
    const buffer = new SendBuffer<number>({ ...exact, txPortalStartSize: 2_359_296 });
    const window = () => buffer.detail().windowSize;
    const run = () => {
      for (let index = 0; index < 28; index++) buffer.acknowledge(ackOf([buffer.add(index, 10_240, 0)]), 0);
    };
    run();
    expect(window()).toBe(2_646_016);
    run();
    expect(window()).toBe(3_219_456);
    for (let index = 0; index < 50; index++) run();
    expect(window()).toBe(4_194_304);
  });

  it("measures the round trip over the wrap of the clock, smooths it and derives the threshold", () => {
    const buffer = new SendBuffer<string>(exact);
    expect(buffer.retransmitAfterMs).toBe(200);
    const measure = (sentAt: number, roundTrip: number): void => {
      const sequence = buffer.add("a", 1, sentAt);
      buffer.acknowledge(ackOf([sequence], { rtt: ms16(sentAt) }), sentAt + roundTrip);
    };
    measure(0x4_fff0, 20);
    expect([buffer.rttMs, buffer.retransmitAfterMs]).toEqual([20, 30]);
    measure(0x5_1000, 500);
    expect([buffer.rttMs, buffer.retransmitAfterMs]).toEqual([50, 75]);
    const sequence = buffer.add("a", 1, 0x5_2000);
    buffer.acknowledge(ackOf([sequence], { rtt: 0 }), 0x5_9000);
    expect(buffer.rttMs).toBe(50);
  });

  it("tells by the echoed clock which of several transmissions is acknowledged", () => {
    const buffer = new SendBuffer<string>(exact);
    const acknowledge = (echo: number, now: number): void => {
      buffer.add("a", 1, 1_000);
      buffer.retransmit(1_300, () => true);
      buffer.acknowledge(ackOf([buffer.nextSequence - 1], { rtt: echo }), now);
    };
    acknowledge(1_300, 1_310);
    expect(buffer.rttMs).toBe(10);
    const late = new SendBuffer<string>(exact);
    late.add("a", 1, 1_000);
    late.retransmit(1_300, () => true);
    late.acknowledge(ackOf([0], { rtt: 1_000 }), 1_350);
    expect(late.rttMs).toBe(350);
    // The acknowledgement of the second one, which is known to echo our clock now.
    late.acknowledge(ackOf([0], { rtt: 1_300 }), 1_650);
    expect(late.rttMs).toBe(350);
  });

  it("does not believe a clock that another router has written over ours", () => {
    const buffer = new SendBuffer<string>(exact);
    buffer.add("a", 1, 5_000);
    buffer.acknowledge(ackOf([0], { rtt: 50_144 }), 5_040);
    expect(buffer.rttMs).toBe(40);
    // Sent twice, it says nothing; nor does what is acknowledged again.
    buffer.add("b", 1, 6_000);
    buffer.retransmit(6_100, () => true);
    buffer.acknowledge(ackOf([1], { rtt: 50_144 }), 6_150);
    buffer.acknowledge(ackOf([1], { rtt: 50_144 }), 6_160);
    expect(buffer.rttMs).toBe(40);
  });

  it("does not retransmit below the floor, because acknowledgements come in batches", () => {
    const buffer = new SendBuffer<string>();
    buffer.add("a", 1, 1_000);
    buffer.acknowledge(ackOf([0], { rtt: 1_000 }), 1_001);
    expect(buffer.retransmitAfterMs).toBe(100);
  });

  it("retransmits what is old, in order, at most every 64 ms, and stops where there is no room", () => {
    const buffer = new SendBuffer<string>({ retxStartMs: 200 });
    buffer.add("first", 1, 0);
    buffer.acknowledge(ackOf([0]), 0);
    buffer.add("a", 1, 0);
    buffer.add("b", 1, 0);
    buffer.add("c", 1, 150);
    overtake(buffer, "d", 150);
    const sent: string[] = [];
    const send = (payload: string) => sent.push(payload) < 100;
    expect(buffer.retransmit(199, send)).toBe(0);
    expect(buffer.retransmit(263, send)).toBe(0);
    expect(buffer.retransmit(264, send)).toBe(2);
    expect(sent).toEqual(["a", "b"]);
    expect(buffer.retransmit(350, () => false)).toBe(0);
    buffer.acknowledge(ackOf([3]), 351);
    expect(buffer.retransmit(463, send)).toBe(0);
    overtake(buffer, "e", 463);
    expect(buffer.retransmit(528, send)).toBe(2);
  });

  it("asks with its oldest payload alone while nothing shows that others were lost", () => {
    const buffer = new SendBuffer<string>({ retxStartMs: 200 });
    for (const payload of ["a", "b", "c"]) buffer.add(payload, 1, 0);
    const sent: string[] = [];
    const send = (payload: string) => sent.push(payload) > 0;
    for (const at of [200, 300, 400, 600, 30_000]) buffer.retransmit(at, send);
    expect(sent).toEqual(["a", "a", "a", "a"]);
    // The answer was late, and nothing lost: those to the others are right behind it.
    buffer.acknowledge(ackOf([0]), 30_050);
    expect(buffer.retransmit(30_065, send)).toBe(1);
    buffer.acknowledge(ackOf([1, 2]), 30_070);
    expect([sent.slice(4), buffer.inFlight]).toEqual([["b"], 0]);
  });

  it("sends all again that an answer has overtaken", () => {
    const sent: string[] = [];
    const send = (payload: string) => sent.push(payload) > 0;
    const buffer = new SendBuffer<string>({ retxStartMs: 200 });
    for (const payload of ["a", "b", "c", "d"]) buffer.add(payload, 1, 0);
    buffer.acknowledge(ackOf([2]), 100);
    // Before "d" nothing is known that was sent later.
    expect(buffer.retransmit(200, send)).toBe(2);
    expect(sent).toEqual(["a", "b"]);
  });

  it("sends all again when the oldest was answered after it was sent again, and then nothing", () => {
    const sent: string[] = [];
    const send = (payload: string) => sent.push(payload) > 0;
    const buffer = new SendBuffer<string>({ retxStartMs: 200 });
    for (const payload of ["a", "b", "c"]) buffer.add(payload, 1, 0);
    buffer.retransmit(200, send);
    buffer.acknowledge(ackOf([0]), 260);
    expect(buffer.retransmit(270, send)).toBe(1);
    expect(buffer.retransmit(335, send)).toBe(1);
    expect(sent).toEqual(["a", "b", "c"]);
  });

  it("knows its clock in acknowledgements of either kind, and measures by it what was sent again", () => {
    for (const echo of [(clock: number) => clock, echoOf]) {
      const buffer = new SendBuffer<string>({ ...exact, retxStartMs: 200 });
      buffer.add("a", 1, 1_000);
      buffer.retransmit(1_300, () => true);
      // It answers the second sending.
      buffer.acknowledge(ackOf([0], { rtt: echo(1_300) }), 1_340);
      expect(buffer.rttMs).toBe(40);
      // A sequence that is not in flight any more: only the echo tells.
      buffer.acknowledge(ackOf([0], { rtt: echo(1_300) }), 1_400);
      expect(buffer.rttMs).toBe(70);
    }
    expect([echoOf(0), echoOf(100), echoOf(99), echoOf(500)]).toEqual([0, 65_535, 65_535, 400]);
  });

  it("becomes more patient when acknowledgements come twice", () => {
    const buffer = new SendBuffer<string>({ ...exact, txPortalDupAckThresh: 2 });
    buffer.acknowledge(ackOf([5, 6, 7, 8]), 0);
    expect(buffer.detail().retxScale).toBeCloseTo(1.9);
    expect(buffer.totals.duplicateAcks).toBe(4);
  });

  it("releases each payload once", () => {
    const released: string[] = [];
    const buffer = new SendBuffer<string>({}, (payload) => released.push(payload));
    buffer.add("a", 1, 0);
    buffer.add("b", 1, 0);
    buffer.acknowledge(ackOf([1, 1, 0, 0]), 1);
    buffer.add("c", 1, 2);
    buffer.close();
    buffer.close();
    expect(released).toEqual(["b", "a", "c"]);
  });

  it("closes when everything but the end mark is acknowledged and it has lingered, or out of patience", () => {
    const buffer = new SendBuffer<string>();
    buffer.add("data", 10, 0);
    expect(buffer.shouldClose(100_000)).toBe(false);
    buffer.add("end", 0, 1_000, true);
    buffer.closeWhenEmpty(1_000);
    expect(buffer.shouldClose(7_000)).toBe(false);
    buffer.acknowledge(ackOf([0]), 7_000);
    expect([buffer.shouldClose(5_999), buffer.shouldClose(6_000)]).toEqual([false, true]);
    const lost = new SendBuffer<string>();
    lost.add("data", 10, 0);
    lost.closeWhenEmpty(0);
    expect([lost.shouldClose(29_999), lost.shouldClose(30_000)]).toEqual([false, true]);
  });

  it("gives sequences to marks that are sent once, without keeping them", () => {
    const buffer = new SendBuffer<string>();
    expect([buffer.skip(), buffer.add("a", 1, 0), buffer.skip(), buffer.nextSequence, buffer.inFlight]).toEqual([
      0, 1, 2, 3, 1,
    ]);
    buffer.acknowledge(ackOf([1]), 0);
    expect(buffer.inFlight).toBe(0);
  });

  it("bounds the number of payloads, which may be empty", () => {
    const buffer = new SendBuffer<string>({ maxPayloads: 10 });
    buffer.add("data", 1, 0);
    let added = 1;
    while (buffer.canAdd) {
      buffer.add("", 0, 0);
      added++;
    }
    expect(added).toBe(10);
  });
});
