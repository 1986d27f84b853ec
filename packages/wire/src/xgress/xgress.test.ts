import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { EdgeFlag } from "../catalogue/edge.ts";
import { XgressCapability, XgressFlag, XgressType } from "../catalogue/xgress.ts";
import { FrameParser, type FrameView } from "../frame/frame.ts";
import { JoinedFabric } from "../testing/joined-fabric.ts";
import type { ControlMessage } from "./frames/control-message.ts";
import { ms16, PayloadTemplate, PayloadView, payloadHeaders, readPayload } from "./frames/payload.ts";
import type { Delivery, LocalPort } from "./local-port.ts";
import { xgressDefaults } from "./options.ts";
import type { XgressEnd, XgressPath } from "./path.ts";
import { AckView, readAck } from "./receive/acknowledgement.ts";
import { Xgress } from "./xgress.ts";

const CIRCUIT = "5esv560XXd312KZWHbukBN";
const { CircuitEnd, CircuitStart, Eof, Terminator, WriteFailed, Retransmit } = XgressFlag;

interface Seen {
  sequence: number;
  flags: number;
  body: string;
  capabilities: number;
  edgeFlags: number;
}

/** The other end of the circuit, by hand: what it got, and payloads of its choice. */
class ScriptedEnd implements XgressEnd {
  readonly kind = "xgress" as const;
  readonly circuitId = CIRCUIT;
  readonly address = "far";
  readonly side = "initiator" as const;
  readonly lastReceived = 0;
  gone = false;
  readonly payloads: Seen[] = [];
  readonly acks: { sequences: number[]; rtt: number; held: number }[] = [];
  path: XgressPath | undefined;
  readonly #template = new PayloadTemplate(CIRCUIT);
  #next = 0;

  payload(frame: FrameView): void {
    const view = new PayloadView();
    readPayload(frame, view);
    const body = frame.buffer.toString("utf8", view.bodyStart, view.bodyEnd);
    const { sequence, flags, capabilities, edgeFlags } = view;
    this.payloads.push({ sequence, flags, body, capabilities, edgeFlags });
  }

  ack(frame: FrameView): void {
    const view = new AckView();
    readAck(frame, view);
    const sequences = Array.from({ length: view.count }, (_, i) => view.sequence(i));
    this.acks.push({ sequences, rtt: view.rtt, held: view.receiveBufferSize });
  }

  control(): void {}
  outputFor(): undefined {}
  unrouted(): void {}
  rerouted(): void {}
  inspect(): Record<string, unknown> {
    return {};
  }

  send(
    o: {
      flags?: number;
      body?: string;
      capabilities?: number;
      edgeFlags?: number;
      sequence?: number;
      rtt?: number;
    } = {},
  ): void {
    const { flags = 0, body = "", sequence = this.#next++, rtt = ms16(performance.now()) } = o;
    const extra = payloadHeaders(o);
    const length = this.#template.byteLength(flags, extra);
    const buffer = Buffer.alloc(length + body.length);
    this.#template.write(buffer, 0, 0, sequence, flags, rtt, body.length, extra);
    buffer.write(body, length);
    new FrameParser({ maxHeaders: 1e4, maxBody: 1e6 }, (frame) => this.path?.payload(frame, flags)).push(buffer);
  }

  start(capabilities: number | undefined = XgressCapability.eof): void {
    this.send({ flags: CircuitStart, ...(capabilities === undefined ? {} : { capabilities }) });
  }

  /** Acknowledges everything that came, as a receiver does. */
  acknowledgeAll(): void {
    this.acknowledge(...this.payloads.map((p) => p.sequence));
  }

  acknowledge(...sequences: number[]): void {
    const body = Buffer.alloc(4 * sequences.length);
    for (const [i, sequence] of sequences.entries()) body.writeInt32BE(sequence, 4 * i);
    const headers = Buffer.alloc(8 + CIRCUIT.length + 12);
    headers.writeInt32LE(2256, 0);
    headers.writeInt32LE(CIRCUIT.length, 4);
    headers.write(CIRCUIT, 8);
    headers.writeInt32LE(2259, 8 + CIRCUIT.length);
    headers.writeInt32LE(4, 12 + CIRCUIT.length);
    const prefix = Buffer.from("0306090c4d04000000000000", "hex");
    const lengths = Buffer.alloc(8);
    lengths.writeInt32LE(headers.length, 0);
    lengths.writeInt32LE(body.length, 4);
    const bytes = Buffer.concat([prefix, lengths, headers, body]);
    new FrameParser({ maxHeaders: 1e4, maxBody: 1e6 }, (frame) => this.path?.ack(frame)).push(bytes);
  }
}

class ScriptedPort implements LocalPort {
  readonly delivered: string[] = [];
  readonly log: string[] = [];
  room = true;

  deliver(d: Delivery): boolean {
    if (!this.room) return false;
    this.delivered.push(d.buffer.toString("utf8", d.start, d.end));
    return true;
  }
  endOfData(): void {
    this.log.push("end of data");
  }
  resume(): void {
    this.log.push("resume");
  }
  stopSending(): void {
    this.log.push("stop sending");
  }
  closed(reason: string): void {
    this.log.push(`closed: ${reason}`);
  }
  trace(message: ControlMessage): ControlMessage {
    return message;
  }
  traceAnswered(): void {}
}

let fabric: JoinedFabric;
let far: ScriptedEnd;
let port: ScriptedPort;
let near: Xgress;

beforeEach(() => {
  vi.useFakeTimers();
  fabric = new JoinedFabric();
  far = new ScriptedEnd();
  port = new ScriptedPort();
  far.path = fabric.register(far);
  near = new Xgress({
    fabric,
    circuitId: CIRCUIT,
    address: "near",
    side: "terminator",
    port,
    options: xgressDefaults,
  });
});

afterEach(() => {
  fabric.close();
  vi.useRealTimers();
});

function write(text: string): boolean {
  const body = Buffer.from(text);
  return near.write(body, 0, body.length);
}

test("a terminating end sends nothing before the circuit is started, and then its capabilities first", () => {
  write("early");
  expect(far.payloads).toEqual([]);
  far.start();
  expect(far.payloads).toEqual([
    { sequence: 0, flags: Terminator, body: "", capabilities: XgressCapability.eof, edgeFlags: -1 },
    { sequence: 1, flags: Terminator, body: "early", capabilities: -1, edgeFlags: -1 },
  ]);
  expect(port.delivered).toEqual([]);
});

test("a peer without capabilities is told none, and gets a FIN only for half close: CircuitEnd would end its direction, too", () => {
  far.send({ flags: CircuitStart });
  write("x");
  near.endInput();
  const sent = () => far.payloads.map((p) => [p.flags, p.body, p.edgeFlags, p.capabilities]);
  const half = [
    [Terminator, "x", -1, -1],
    [Terminator, "", EdgeFlag.Fin, -1],
  ];
  expect(sent()).toEqual(half);
  far.send({ body: "on its way" });
  vi.advanceTimersByTime(20);
  expect(sent().filter(([flags]) => ((flags ?? 0) as number) & CircuitEnd)).toEqual([]);
  expect(port.delivered).toEqual(["on its way"]);
  far.send({ edgeFlags: EdgeFlag.Fin });
  // Routers end the circuit when they see the mark: not before everything has arrived.
  expect(sent()).toEqual(half);
  far.acknowledgeAll();
  expect(sent().at(-1)).toEqual([Terminator | CircuitEnd, "", -1, -1]);
  expect(port.log).toEqual([]);
  far.send({ flags: CircuitEnd });
  expect(port.log.at(-1)).toContain("closed");
});

test("a peer without capabilities that has ended first gets CircuitEnd when it has everything", () => {
  far.send({ flags: CircuitStart });
  far.send({ body: "last", edgeFlags: EdgeFlag.Fin });
  near.endInput();
  far.acknowledgeAll();
  expect(far.payloads.map((p) => [p.flags, p.edgeFlags])).toEqual([
    [Terminator, EdgeFlag.Fin],
    [Terminator | CircuitEnd, -1],
  ]);
});

test("a peer that knows it gets EOF; when both have ended and all is acknowledged the circuit is over", () => {
  far.start();
  near.endInput();
  expect(far.payloads.at(-1)?.flags).toBe(Terminator | Eof);
  far.send({ edgeFlags: EdgeFlag.Fin });
  far.send({ flags: Eof });
  expect(port.log).toEqual(["end of data"]);
  expect(fabric.reported).toEqual([]);
  far.acknowledgeAll();
  expect(port.log.at(-1)).toContain("closed: both ends");
  expect(far.payloads.at(-1)?.flags).toBe(Terminator | CircuitEnd);
  expect(fabric.reported).toEqual(["terminator"]);
});

test("CircuitEnd behind a FIN is an old peer's half close; a second one is the end", () => {
  far.send({ flags: CircuitStart });
  far.send({ body: "last", edgeFlags: EdgeFlag.Fin });
  far.send({ flags: CircuitEnd });
  expect(port.log).toEqual(["end of data"]);
  write("still open");
  expect(far.payloads.at(-1)?.body).toBe("still open");
  far.send({ flags: CircuitEnd });
  expect(port.log.at(-1)).toContain("closed");
});

test("a peer that knows EOF but not yet that we do half closes with CircuitEnd, without a FIN; what comes back is sent", () => {
  far.start();
  far.send({ body: "question" });
  far.send({ flags: CircuitEnd });
  expect(port.log).toEqual(["end of data"]);
  write("answer");
  near.endInput();
  expect(far.payloads.slice(1).map((p) => [p.flags, p.body])).toEqual([
    [Terminator, "answer"],
    [Terminator, ""],
    [Terminator | Eof, ""],
  ]);
  expect(fabric.reported).toEqual([]);
  far.acknowledgeAll();
  expect(port.log.at(-1)).toContain("both ends");
});

test("the first CircuitEnd of a peer that knows EOF takes nothing away that is still unacknowledged here", () => {
  far.start();
  write("answer");
  near.endInput();
  far.send({ flags: CircuitEnd });
  expect(fabric.reported).toEqual([]);
  far.send({ flags: CircuitEnd });
  expect(port.log.at(-1)).toContain("the other end closed");
});

test("CircuitEnd without a FIN is the end for a peer without EOF, and comes after everything sent before", () => {
  far.send({ flags: CircuitStart });
  far.send({ sequence: 2, flags: CircuitEnd });
  expect(port.log).toEqual([]);
  far.send({ sequence: 1, body: "late" });
  expect(port.delivered).toEqual(["late"]);
  expect(port.log[0]).toContain("closed");
});

test("a circuit that is started by an end which takes nothing any more keeps no memory", () => {
  far.send({ flags: CircuitStart | WriteFailed, capabilities: XgressCapability.eof });
  expect(far.payloads.map((p) => p.capabilities)).toEqual([XgressCapability.eof]);
  near.unrouted();
  expect(fabric.pool.lentBytes).toBe(0);
});

test("WriteFailed stops sending at once, out of order", () => {
  far.start();
  far.send({ sequence: 9, flags: WriteFailed });
  expect(port.log).toEqual(["stop sending"]);
  const sent = far.payloads.length;
  expect(write("no one reads this")).toBe(true);
  expect(far.payloads.length).toBe(sent);
});

test("acknowledgements leave together with the clock of the oldest, at the latest after a few milliseconds", () => {
  far.send({ flags: CircuitStart, capabilities: 0x100, rtt: 500 });
  for (let i = 0; i < 5; i++) far.send({ body: "x", rtt: 501 + i });
  expect(far.acks).toEqual([]);
  vi.advanceTimersByTime(5);
  expect(far.acks).toEqual([{ sequences: [0, 1, 2, 3, 4, 5], rtt: 400, held: 0 }]);
  for (let i = 0; i < 64; i++) far.send({ body: "x" });
  expect(far.acks.length).toBe(2);
  far.send({ sequence: 3, body: "again" });
  vi.advanceTimersByTime(5);
  expect(far.acks.at(-1)?.sequences).toEqual([3]);
  expect(port.delivered.length).toBe(69);
});

test("what finds no room outside is held and said, and an acknowledgement tells when it was taken", () => {
  far.start();
  port.room = false;
  for (let i = 0; i < 3; i++) far.send({ body: String(i).repeat(8_000) });
  vi.advanceTimersByTime(5);
  expect(far.acks.at(-1)).toMatchObject({ sequences: [0, 1, 2, 3], held: 24_000 });
  port.room = true;
  near.deliverHeld();
  expect(port.delivered.map((body) => body[0])).toEqual(["0", "1", "2"]);
  expect(far.acks.at(-1)).toMatchObject({ sequences: [], held: 8_000 });
});

test("payloads are sent again until they are acknowledged, marked and with a new clock", () => {
  far.start();
  far.acknowledgeAll();
  write("important");
  vi.advanceTimersByTime(1_000);
  const again = far.payloads.filter((p) => p.body === "important");
  expect(again.length).toBeGreaterThan(1);
  expect(again.at(-1)?.flags).toBe(Terminator | Retransmit);
  expect(again.every((p) => p.sequence === 1)).toBe(true);
  far.acknowledgeAll();
  const count = far.payloads.length;
  vi.advanceTimersByTime(2_000);
  expect(far.payloads.length).toBe(count);
});

test("a source is stopped when too much waits, and goes on when acknowledgements made room", () => {
  far.start();
  const body = Buffer.alloc(64_000);
  let room = true;
  let given = 0;
  while (room && given < 1_000) {
    room = near.write(body, 0, body.length);
    given++;
  }
  expect(given).toBeLessThan(100);
  while (!port.log.includes("resume")) {
    const before = far.payloads.length;
    far.acknowledgeAll();
    expect(far.payloads.length).toBeGreaterThan(before);
  }
});

test("closing delivers what was given, and its end; the mark at which routers end the circuit waits until all has arrived", () => {
  far.start();
  write("bye");
  near.close("test");
  expect(far.payloads.map((p) => [p.body, p.flags])).toEqual([
    ["", Terminator],
    ["bye", Terminator],
    ["", Terminator | Eof],
  ]);
  far.acknowledge(0, 1);
  expect(fabric.reported).toEqual([]);
  vi.advanceTimersByTime(500);
  expect(far.payloads.at(-1)?.flags).toBe(Terminator | Eof | Retransmit);
  far.acknowledgeAll();
  expect(far.payloads.at(-1)?.flags).toBe(Terminator | CircuitEnd);
  expect(fabric.reported).toEqual(["terminator"]);
});

test("a close behind a FIN has two marks: the first one alone is the half close of old peers", () => {
  far.send({ flags: CircuitStart });
  near.write(Buffer.alloc(0), 0, 0, EdgeFlag.Fin);
  near.close("test");
  far.acknowledgeAll();
  expect(far.payloads.slice(-2).map((p) => p.flags)).toEqual([Terminator | CircuitEnd, Terminator | CircuitEnd]);
});

test("an end mark that was lost is sent again before the circuit ends, for some seconds", () => {
  far.start();
  near.endInput();
  far.acknowledge(0, 1);
  far.send({ flags: XgressFlag.Eof });
  expect(far.payloads.at(-1)?.flags).toBe(Terminator | XgressFlag.Eof);
  vi.advanceTimersByTime(500);
  expect(far.payloads.at(-1)?.flags).toBe(Terminator | XgressFlag.Eof | XgressFlag.Retransmit);
  expect(fabric.reported).toEqual([]);
  vi.advanceTimersByTime(xgressDefaults.endWaitMs);
  expect(fabric.reported).toEqual(["terminator"]);
});

test("a host that says its piece and hangs up before the circuit starts is heard when it starts", () => {
  write("bye");
  near.close("test");
  expect(fabric.reported).toEqual([]);
  expect(far.payloads).toEqual([]);
  far.start();
  expect(far.payloads.map((p) => p.body).join("")).toBe("bye");
  far.acknowledgeAll();
  expect(far.payloads.at(-1)?.flags).toBe(Terminator | CircuitEnd);
  expect(fabric.reported).toEqual(["terminator"]);
});

test("a host that hangs up without a word before the circuit starts ends it when it starts", () => {
  near.close("test");
  vi.advanceTimersByTime(1_000);
  expect([far.payloads, fabric.reported]).toEqual([[], []]);
  far.start();
  far.acknowledgeAll();
  expect(far.payloads.at(-1)?.flags).toBe(Terminator | CircuitEnd);
  expect(fabric.reported).toEqual(["terminator"]);
});

test("a closing end whose other end is silent gives up after its time", () => {
  far.start();
  write("x");
  near.close("test");
  vi.advanceTimersByTime(xgressDefaults.maxCloseWaitMs + 1_000);
  expect(fabric.reported).toEqual(["terminator"]);
});

test("a closing end that makes progress is not cut off", () => {
  far.start();
  for (const text of ["a", "b", "c"]) write(text);
  near.close("test");
  for (const sequence of [1, 2, 3]) {
    vi.advanceTimersByTime(xgressDefaults.maxCloseWaitMs * 0.8);
    far.acknowledge(sequence);
    expect(fabric.reported).toEqual([]);
  }
  far.acknowledge(0);
  expect(fabric.reported).toEqual(["terminator"]);
});

test.each([false, true])("what was given before an orderly end outlives an outage, gone local side: %s", (isGone) => {
  far.start();
  write("answer");
  near.endInput();
  far.send({ flags: Eof });
  if (isGone) near.close("test");
  vi.advanceTimersByTime(xgressDefaults.maxCloseWaitMs + 60_000);
  expect(fabric.reported).toEqual([]);
  expect(far.payloads.at(-1)?.flags).toBe(Terminator | Retransmit);
  far.acknowledgeAll();
  expect(fabric.reported).toEqual(["terminator"]);
});

test("an orderly end whose other end stays silent is given up at last", () => {
  far.start();
  write("answer");
  near.endInput();
  near.close("test");
  vi.advanceTimersByTime(xgressDefaults.orderlyWaitMs + 1_000);
  expect(fabric.reported).toEqual(["terminator"]);
});

test("a circuit that is never started ends, and payloads of the own side are loops", () => {
  far.send({ flags: Terminator, body: "loop" });
  expect(port.delivered).toEqual([]);
  vi.advanceTimersByTime(xgressDefaults.circuitStartTimeoutMs + 1_000);
  expect(port.log[0]).toContain("did not start");
});

test("frames that are no payloads are dropped", () => {
  const junk = Buffer.from("0306090c4c0400000000000000000000030000006a756e", "hex");
  new FrameParser({ maxHeaders: 100, maxBody: 100 }, (frame) => far.path?.payload(frame, 0)).push(junk);
  far.start();
  expect(far.payloads.length).toBe(1);
  expect(XgressType.Payload).toBe(1100);
});
