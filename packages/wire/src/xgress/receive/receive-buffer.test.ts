import { describe, expect, it } from "vitest";
import { Arrival, ReceiveBuffer } from "./receive-buffer.ts";

describe("ReceiveBuffer", () => {
  it("puts payloads in order and answers duplicates", () => {
    const buffer = new ReceiveBuffer<string>();
    expect(buffer.arrive(1, 10)).toBe(Arrival.Early);
    buffer.keep(1, "b", 10);
    expect(buffer.arrive(1, 10)).toBe(Arrival.Duplicate);
    expect(buffer.arrive(0, 5)).toBe(Arrival.Next);
    expect(buffer.takeNext()).toBe("b");
    expect(buffer.takeNext()).toBeUndefined();
    expect(buffer.arrive(0, 5)).toBe(Arrival.Duplicate);
    expect(buffer.arrive(1, 10)).toBe(Arrival.Duplicate);
    expect(buffer.held).toBe(15);
    buffer.release(15);
    expect(buffer.detail()).toEqual({ size: 0, payloadCount: 0, sequence: 1, maxSequence: 1 });
  });

  it("refuses new payloads over its limit, but not what fills a gap", () => {
    const buffer = new ReceiveBuffer<string>({ rxBufferSize: 10 });
    expect(buffer.arrive(2, 11)).toBe(Arrival.Early);
    buffer.keep(2, "c", 11);
    expect(buffer.arrive(3, 1)).toBe(Arrival.NoRoom);
    expect(buffer.arrive(0, 1)).toBe(Arrival.Next);
    expect(buffer.arrive(1, 1)).toBe(Arrival.Next);
    expect(buffer.takeNext()).toBe("c");
    expect(buffer.arrive(3, 1)).toBe(Arrival.NoRoom);
    buffer.release(12);
    expect(buffer.arrive(3, 1)).toBe(Arrival.Next);
  });

  it("keeps a bounded number of early payloads, which may be empty", () => {
    const buffer = new ReceiveBuffer<string>({ maxPayloads: 2 });
    for (const sequence of [5, 6]) {
      expect(buffer.arrive(sequence, 0)).toBe(Arrival.Early);
      buffer.keep(sequence, "", 0);
    }
    expect(buffer.arrive(7, 0)).toBe(Arrival.NoRoom);
    expect(buffer.earlyCount).toBe(2);
  });

  it("fills gaps beyond its limit, but not without end for a sender that leaves them on purpose", () => {
    const buffer = new ReceiveBuffer<string>({ rxBufferSize: 10 });
    expect(buffer.arrive(100, 1)).toBe(Arrival.Early);
    buffer.keep(100, "", 1);
    for (const sequence of [50, 51]) {
      expect(buffer.arrive(sequence, 10)).toBe(Arrival.Early);
      buffer.keep(sequence, "", 10);
    }
    expect(buffer.arrive(52, 10)).toBe(Arrival.NoRoom);
    expect(buffer.arrive(0, 10)).toBe(Arrival.Next);
  });

  it("asks for an empty acknowledgement when its fill fell to less than half of a large report", () => {
    const buffer = new ReceiveBuffer<string>();
    buffer.arrive(0, 12_000);
    expect(buffer.release(100)).toBe(false);
    expect(buffer.report()).toBe(11_900);
    expect(buffer.release(5_000)).toBe(false);
    expect(buffer.release(1_000)).toBe(true);
    expect(buffer.report()).toBe(5_900);
    expect(buffer.release(5_900)).toBe(false);
  });
});
