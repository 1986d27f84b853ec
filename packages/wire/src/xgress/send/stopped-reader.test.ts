/** A reader that stops costs its window, and then nothing: no traffic goes on behind it (docs/protocol/data-path.md, "Xgress"). */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { XgressFlag } from "../../catalogue/xgress.ts";
import type { Waiter } from "../../socket/fair-output.ts";
import { JoinedFabric } from "../../testing/joined-fabric.ts";
import type { Delivery, LocalPort } from "../local-port.ts";
import { xgressDefaults } from "../options.ts";
import type { Side, XgressEnd, XgressPath } from "../path.ts";
import { Xgress } from "../xgress.ts";

const MIB = 1024 * 1024;
const CHUNK = Buffer.alloc(16_384);

/** Counts what passes, and loses acknowledgements when told to. */
class CountedFabric extends JoinedFabric {
  payloads = 0;
  retransmissions = 0;
  losesAcks = false;
  /** Others always wait for the connection: a newcomer finds it full, and gets a turn in the ring. */
  isBusy = false;
  readonly #ring = new Set<Waiter>();

  /** One turn for each that waits. */
  share(): void {
    for (const waiter of [...this.#ring]) {
      this.#ring.delete(waiter);
      this.isBusy = false;
      if (waiter.takeTurn()) this.#ring.add(waiter);
      this.isBusy = true;
    }
  }

  override register(end: XgressEnd): XgressPath {
    const path = super.register(end);
    const fabric = this;
    return {
      ...path,
      get isOpen() {
        return !fabric.isBusy;
      },
      wait: (waiter) => void this.#ring.add(waiter),
      payload: (frame, flags) => {
        if ((flags & XgressFlag.Retransmit) === 0) this.payloads++;
        path.payload(frame, flags);
      },
      retransmit: (frame, flags) => {
        this.retransmissions++;
        path.retransmit(frame, flags);
      },
      ack: (frame) => {
        if (!this.losesAcks) path.ack(frame);
      },
    };
  }
}

class Port implements LocalPort {
  takes = true;
  isFull = false;
  bytes = 0;
  ended = false;
  closedBy: string | undefined;

  deliver(d: Delivery): boolean {
    if (this.takes) this.bytes += d.end - d.start;
    return this.takes;
  }
  endOfData(): void {
    this.ended = true;
  }
  resume(): void {
    this.isFull = false;
  }
  stopSending(): void {}
  closed(reason: string): void {
    this.closedBy = reason;
  }
  trace(): undefined {}
  traceAnswered(): void {}
}

let fabric: CountedFabric;

beforeEach(() => {
  vi.useFakeTimers();
  fabric = new CountedFabric();
});

afterEach(() => {
  fabric.close();
  expect(fabric.pool.lentBytes).toBe(0);
  vi.useRealTimers();
});

/** A circuit that is written to until its writer is told to stop, because no one reads. */
function stoppedCircuit(options = xgressDefaults) {
  const end = (side: Side) => {
    const port = new Port();
    const parts = { fabric, circuitId: "c", address: side, side, port, options };
    return { port, xgress: new Xgress(parts) };
  };
  const writer = end("initiator");
  const reader = end("terminator");
  writer.xgress.start();
  vi.advanceTimersByTime(10);
  reader.port.takes = false;
  const write = () => {
    let written = 0;
    while (!writer.port.isFull && written < 100 * MIB) {
      writer.port.isFull = !writer.xgress.write(CHUNK, 0, CHUNK.length);
      written += CHUNK.length;
    }
    return written;
  };
  let written = 0;
  for (let turn = 0; turn < 100; turn++) {
    written += write();
    vi.advanceTimersByTime(10);
  }
  return { writer, reader, written };
}

test("a full end gets a payload every few seconds, not one after the other", () => {
  stoppedCircuit();
  const before = fabric.payloads;
  vi.advanceTimersByTime(60_000);
  const sent = fabric.payloads - before;
  expect(sent).toBeGreaterThan(5);
  expect(sent).toBeLessThan(20);
  expect(fabric.retransmissions).toBe(0);
});

test("what a full end refuses is sent again every few seconds only, and at once when it has room", () => {
  const { writer, reader, written } = stoppedCircuit({ ...xgressDefaults, rxBufferSize: 65_536 });
  // Until it refuses what it is asked with.
  for (let minute = 0; fabric.retransmissions === 0 && minute < 10; minute++) vi.advanceTimersByTime(60_000);
  const before = fabric.retransmissions;
  expect(before).toBeGreaterThan(0);
  vi.advanceTimersByTime(60_000);
  expect(fabric.retransmissions - before).toBeLessThan(20);
  reader.port.takes = true;
  reader.xgress.deliverHeld();
  vi.advanceTimersByTime(1_000);
  expect(reader.port.bytes).toBe(written);
  expect(writer.port.isFull).toBe(false);
});

test("a reader that goes on gets everything without waiting for the next question", () => {
  const { writer, reader, written } = stoppedCircuit();
  vi.advanceTimersByTime(20_000);
  reader.port.takes = true;
  reader.xgress.deliverHeld();
  vi.advanceTimersByTime(50);
  expect(reader.port.bytes).toBe(written);
  expect(writer.port.isFull).toBe(false);
});

test("the word that there is room again may be lost: the next question brings it", () => {
  const { reader, written } = stoppedCircuit();
  vi.advanceTimersByTime(20_000);
  fabric.losesAcks = true;
  reader.port.takes = true;
  reader.xgress.deliverHeld();
  vi.advanceTimersByTime(10);
  expect(reader.port.bytes).toBeLessThan(written);
  fabric.losesAcks = false;
  vi.advanceTimersByTime(6_000);
  expect(reader.port.bytes).toBe(written);
});

test("where others always wait for the connection, the next question has its turn among them", () => {
  const { reader, written } = stoppedCircuit();
  fabric.losesAcks = true;
  reader.port.takes = true;
  reader.xgress.deliverHeld();
  vi.advanceTimersByTime(10);
  expect(reader.port.bytes).toBeLessThan(written);
  fabric.losesAcks = false;
  fabric.isBusy = true;
  for (let second = 0; second < 60 && reader.port.bytes < written; second++) {
    vi.advanceTimersByTime(1_000);
    for (let turn = 0; turn < 200; turn++) fabric.share();
  }
  expect(reader.port.bytes).toBe(written);
  fabric.isBusy = false;
});

test("a writer that has sent everything is done, though no one reads: the rest passes, and the end", () => {
  const { writer, reader, written } = stoppedCircuit();
  writer.xgress.endInput();
  vi.advanceTimersByTime(5_000);
  expect(writer.xgress.inspect()).toMatchObject({ queuedToSend: 0, sendBufferDetail: { queuedPayloadCount: 0 } });
  reader.port.takes = true;
  reader.xgress.deliverHeld();
  expect([reader.port.bytes, reader.port.ended]).toEqual([written, true]);
});
