import { expect, test, vi } from "vitest";
import { XgressFlag } from "../catalogue/xgress.ts";
import type { FrameView } from "../frame/frame.ts";
import { xgressCounters } from "./counters.ts";
import { FramePool } from "./frames/frame-pool.ts";
import { PayloadTemplate, PayloadView, readPayload } from "./frames/payload.ts";
import { flowDefaults } from "./options.ts";
import type { XgressPath } from "./path.ts";
import { AckTemplate, AckView, readAck } from "./receive/acknowledgement.ts";
import { PayloadReceiver } from "./receive/payload-receiver.ts";
import { PayloadSender } from "./send/payload-sender.ts";
import { AckScheduler } from "./timers.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const LEAST = 64 * KIB;
const BODY = Buffer.alloc(10 * KIB);
/** What a frame may take beyond its body: headers, and the next larger size of the pool. */
const FRAME = 11 * KIB;

const openPath: XgressPath = {
  isOpen: true,
  wait() {},
  payload() {},
  retransmit() {},
  report: () => false,
  ack() {},
  control() {},
  close() {},
};

function sender(pool: FramePool, onRoom = () => {}): PayloadSender {
  const made = new PayloadSender({
    circuitId: "c",
    isTerminator: false,
    path: openPath,
    pool,
    options: flowDefaults,
    counters: xgressCounters(),
    onRoom,
  });
  made.start();
  return made;
}

/** Sends until the sender asks to stop. */
function fill(one: PayloadSender): void {
  for (let i = 0; i < 10_000; i++) if (!one.data(BODY, 0, BODY.length, -1, -1, -1)) return;
  throw new Error("a sender without acknowledgements never asked to stop");
}

function ackFrame(sequences: number[], held = 0): FrameView {
  const template = new AckTemplate("c", 0);
  const buffer = Buffer.alloc(template.byteLength(sequences.length));
  const end = template.write(buffer, 0, 0, 0, held, Int32Array.from(sequences), sequences.length);
  const headersEnd = template.byteLength(0);
  return {
    buffer,
    start: 0,
    contentType: 1101,
    sequence: 0,
    headersStart: 20,
    headersEnd,
    bodyStart: headersEnd,
    end,
    carriesHeartbeat: false,
  };
}

test("a single sender has its whole window", () => {
  const pool = new FramePool();
  const one = sender(pool);
  fill(one);
  expect(one.detail().linkSendBufferSize).toBeGreaterThan(4 * MIB);
  one.stop();
  expect(pool.lentBytes).toBe(0);
});

test("many senders share the memory, and each gets some", () => {
  const pool = new FramePool({ budget: 8 * MIB });
  const senders = Array.from({ length: 32 }, () => sender(pool));
  for (const one of senders) fill(one);
  expect(pool.lentBytes).toBeLessThan(8 * MIB + senders.length * (2 * LEAST + 2 * FRAME));
  for (const one of senders) expect(one.detail().linkSendBufferSize).toBeGreaterThanOrEqual(LEAST);
  for (const one of senders) one.stop();
  expect(pool.lentBytes).toBe(0);
});

test("a sender that was stopped for want of memory goes on as its payloads are acknowledged", () => {
  const pool = new FramePool({ budget: LEAST });
  let room = 0;
  const one = sender(pool, () => room++);
  fill(one);
  const inFlight = one.detail().queuedPayloadCount;
  const waiting = one.queued;
  expect(waiting).toBeGreaterThan(0);
  let sequence = 0;
  for (; sequence < inFlight + waiting; sequence++) one.acknowledge(ackFrame([sequence]), performance.now());
  expect(one.queued).toBe(0);
  expect(room).toBe(1);
  expect(pool.lentBytes).toBe(0);
});

/** A receiver whose local side takes nothing until `open` is called; `fills` are those it reported. */
function receiver(pool: FramePool) {
  const fills: number[] = [];
  const view = new AckView();
  const acks = new AckScheduler();
  const side = { isOpen: false };
  const made = new PayloadReceiver({
    circuitId: "c",
    isTerminator: false,
    path: {
      ...openPath,
      ack: (frame) => {
        readAck(frame, view);
        fills.push(view.receiveBufferSize);
      },
    },
    pool,
    options: flowDefaults,
    counters: xgressCounters(),
    acks,
    handOut: () => side.isOpen,
  });
  return { receiver: made, fills, acks, side };
}

function payload(sequence: number, size = BODY.length): FrameView {
  const template = new PayloadTemplate("c");
  const headersEnd = template.byteLength(0);
  const buffer = Buffer.alloc(headersEnd + size);
  template.write(buffer, 0, 0, sequence, 0, 0, size);
  const where = { start: 0, headersStart: 20, headersEnd, bodyStart: headersEnd, end: buffer.length };
  return { buffer, contentType: 1100, sequence: 0, carriesHeartbeat: false, ...where };
}

test("what is held is reported as it is while there is memory, and as a full buffer when the share is used up", () => {
  const pool = new FramePool({ budget: 16 * MIB });
  const { receiver: one, fills, acks, side } = receiver(pool);
  const view = new PayloadView();
  const arrive = (sequence: number): void => {
    const frame = payload(sequence);
    readPayload(frame, view);
    one.arrived(frame, view);
    one.flushAcks();
  };
  for (let sequence = 0; sequence < 10; sequence++) arrive(sequence);
  expect(fills.at(-1)).toBe(10 * BODY.length);
  // Others take nearly everything: what this circuit holds is more than the least share now.
  const others = Array.from({ length: 252 }, () => pool.take(66_000));
  arrive(10);
  expect(fills.at(-1)).toBeGreaterThan(flowDefaults.txPortalMaxSize);
  for (const frame of others) pool.give(frame);
  // Its sender waits; when the local side takes what is held, it is told.
  side.isOpen = true;
  const reports = fills.length;
  one.deliverHeld(view, Number.POSITIVE_INFINITY);
  expect(fills.length).toBeGreaterThan(reports);
  expect(fills.at(-1)).toBeLessThan(11 * BODY.length);
  acks.close();
  expect(pool.lentBytes).toBe(0);
});

/** A circuit whose reader takes nothing, with a sender of its own elsewhere that heeds what it is told, or does not. */
function stoppedCircuit(pool: FramePool, o: { isHonest: boolean }): { stop(): void } {
  const { receiver: one, fills, acks } = receiver(pool);
  const view = new PayloadView();
  for (let sequence = 0; sequence < 1_200; sequence++) {
    if (o.isHonest && (fills.at(-1) ?? 0) > flowDefaults.txPortalMaxSize) break;
    const frame = payload(sequence);
    readPayload(frame, view);
    one.arrived(frame, view);
    if (o.isHonest && sequence % 8 === 7) one.flushAcks();
  }
  return {
    stop: () => {
      one.stop();
      acks.close();
    },
  };
}

test("however many readers stop, half of the memory is for circuits that move", () => {
  const pool = new FramePool();
  const stopped = Array.from({ length: 40 }, () => stoppedCircuit(pool, { isHonest: true }));
  const waiting = pool.lentBytes;
  expect(waiting).toBeGreaterThan(8 * MIB);
  expect(waiting).toBeLessThan(12 * MIB + stopped.length * (LEAST + 9 * FRAME));
  const one = sender(pool);
  fill(one);
  expect(one.detail().linkSendBufferSize).toBeGreaterThan(4 * MIB);
  one.stop();
  for (const each of stopped) each.stop();
  expect([pool.lentBytes, pool.parkedBytes]).toEqual([0, 0]);
});

test("readers that stop with senders that heed nothing cost a bounded amount of memory, and leave others theirs", () => {
  const pool = new FramePool();
  const stopped = Array.from({ length: 100 }, () => stoppedCircuit(pool, { isHonest: false }));
  expect(pool.lentBytes).toBeGreaterThan(24 * MIB);
  expect(pool.lentBytes).toBeLessThan(36 * MIB + 9 * MIB + stopped.length * (2 * LEAST + 2 * FRAME));
  const one = sender(pool);
  fill(one);
  expect(one.detail().linkSendBufferSize).toBeGreaterThan(4 * MIB);
  one.stop();
  for (const each of stopped) each.stop();
  expect([pool.lentBytes, pool.parkedBytes]).toEqual([0, 0]);
});

test("senders that get nothing through leave half of the memory to others, in the end no more than a little", () => {
  vi.useFakeTimers();
  try {
    const pool = new FramePool();
    const senders: PayloadSender[] = [];
    const wave = (): number => {
      const made = Array.from({ length: 8 }, () => sender(pool));
      for (const one of made) fill(one);
      senders.push(...made);
      return made[0]?.detail().linkSendBufferSize ?? 0;
    };
    expect(wave()).toBeGreaterThan(4 * MIB);
    // Nothing is left, until it shows that these do not move.
    expect(wave()).toBeLessThan(2 * LEAST);
    vi.advanceTimersByTime(1_100);
    for (const one of senders) one.scan(performance.now());
    expect(pool.parkedBytes).toBe(pool.lentBytes);
    expect(wave()).toBeGreaterThan(4 * MIB);
    for (let i = 0; i < 10; i++) {
      vi.advanceTimersByTime(1_100);
      for (const one of senders) one.scan(performance.now());
      wave();
    }
    expect(pool.lentBytes).toBeLessThan(60 * MIB + senders.length * (2 * LEAST + 2 * FRAME));
    // One that gets something through again is one of those that move.
    const parked = pool.parkedBytes;
    senders[0]?.acknowledge(ackFrame([0]), performance.now());
    expect(pool.parkedBytes).toBeLessThan(parked - 4 * MIB);
    for (const one of senders) one.stop();
    expect([pool.lentBytes, pool.parkedBytes]).toEqual([0, 0]);
  } finally {
    vi.useRealTimers();
  }
});

test("memory with a bound of its own is not missing in the shares", () => {
  const pool = new FramePool();
  const frames = Array.from({ length: 1_000 }, () => pool.take(66_000));
  expect(pool.share).toBe(LEAST / 4);
  const bytes = pool.lentBytes;
  pool.setApart(bytes);
  expect(pool.share).toBe(24 * MIB);
  for (const frame of frames) pool.give(frame);
  pool.setApart(-bytes);
});

test("payloads that came early are given back when the circuit ends before the gap was filled", () => {
  const pool = new FramePool();
  const { receiver: one, acks } = receiver(pool);
  const view = new PayloadView();
  for (const sequence of [3, 7, 12]) {
    const frame = payload(sequence);
    readPayload(frame, view);
    one.arrived(frame, view);
  }
  expect(pool.lentBytes).toBeGreaterThan(3 * BODY.length);
  one.stop();
  acks.close();
  expect(pool.lentBytes).toBe(0);
});

test("a mark that is sent after the sender was stopped is not kept", () => {
  const pool = new FramePool();
  const one = sender(pool);
  one.data(BODY, 0, BODY.length, -1, -1, -1);
  one.stop();
  one.mark(XgressFlag.CircuitEnd);
  expect(pool.lentBytes).toBe(0);
});
