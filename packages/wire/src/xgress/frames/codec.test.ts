import { describe, expect, it } from "vitest";
import { TraceHeader, XgressCapability, XgressControl, XgressFlag, XgressType } from "../../catalogue/xgress.ts";
import { FrameParser, type FrameView } from "../../frame/frame.ts";
import { Headers } from "../../frame/headers.ts";
import { encodeMessage } from "../../frame/message.ts";
import { AckBatch, AckTemplate, AckView, readAck } from "../receive/acknowledgement.ts";
import { ALIGNED_PAYLOAD_SIZE, ms16, PayloadTemplate, PayloadView, payloadHeaders, readPayload } from "./payload.ts";

const hex = (text: string) => Buffer.from(text.replace(/\s+/g, ""), "hex");
const circuit = "5esv560XXd312KZWHbukBN";
const limits = { maxHeaders: 65_536, maxBody: 65_536 };

/** Runs `check` on the frame while it is valid. */
function parse(bytes: Buffer, check: (frame: FrameView) => void): void {
  let frames = 0;
  new FrameParser(limits, (frame) => {
    frames++;
    check(frame);
  }).push(bytes);
  expect(frames).toBe(1);
}

const payloadFrame = hex(`
  03 06 09 0c 4c 04 00 00 29 00 00 00 44 00 00 00
  05 00 00 00 d0 08 00 00 16 00 00 00 35 65 73 76
  35 36 30 58 58 64 33 31 32 4b 5a 57 48 62 75 6b
  42 4e d1 08 00 00 08 00 00 00 07 00 00 00 00 00
  00 00 d2 08 00 00 04 00 00 00 02 00 00 00 d4 08
  00 00 02 00 00 00 2b 1a 68 65 6c 6c 6f`);

const ackFrame = hex(`
  03 06 09 0c 4d 04 00 00 2a 00 00 00 34 00 00 00
  04 00 00 00 d4 08 00 00 02 00 00 00 2b 1a d0 08
  00 00 16 00 00 00 35 65 73 76 35 36 30 58 58 64
  33 31 32 4b 5a 57 48 62 75 6b 42 4e d3 08 00 00
  04 00 00 00 05 00 00 00 00 00 00 07`);

describe("payload", () => {
  it("is read in place", () => {
    const view = new PayloadView();
    parse(payloadFrame, (frame) => {
      expect(readPayload(frame, view)).toBe(true);
      expect(view.circuitId()).toBe(circuit);
      expect([view.sequence, view.flags, view.rtt, view.size]).toEqual([7, XgressFlag.Terminator, 6699, 5]);
      expect(view.buffer.toString("latin1", view.bodyStart, view.bodyEnd)).toBe("hello");
      expect([view.capabilities, view.edgeFlags, view.uuidStart]).toEqual([-1, -1, -1]);
    });
  });

  it("is written byte for byte", () => {
    const template = new PayloadTemplate(circuit);
    expect([template.byteLength(2), template.byteLength(0)]).toEqual([88, 76]);
    const target = Buffer.alloc(100, 0xee);
    const bodyAt = template.write(target, 3, 41, 7, XgressFlag.Terminator, 6699, 5);
    expect(bodyAt).toBe(91);
    target.write("hello", bodyAt);
    expect(target.subarray(3, 96).toString("hex")).toBe(payloadFrame.toString("hex"));
    expect([target[2], target[96]]).toEqual([0xee, 0xee]);
  });

  it("fills a TLS record when it carries the aligned size", () => {
    expect(new PayloadTemplate(circuit).byteLength(2) + ALIGNED_PAYLOAD_SIZE).toBe(16_384);
  });

  it("carries capabilities, edge flags and a trace id, and negative sequences", () => {
    const extra = payloadHeaders({ capabilities: XgressCapability.eof, edgeFlags: 5, uuid: Buffer.alloc(16, 7) });
    expect(extra.subarray(0, 12).toString("hex")).toBe("d10700000400000000000100");
    const template = new PayloadTemplate("c");
    const target = Buffer.alloc(template.byteLength(XgressFlag.CircuitStart, extra));
    expect(template.write(target, 0, -1, -2, XgressFlag.CircuitStart, 1, 0, extra)).toBe(target.length);
    const view = new PayloadView();
    parse(target, (frame) => {
      expect(readPayload(frame, view)).toBe(true);
      expect([view.sequence, view.flags, view.rtt, view.capabilities, view.edgeFlags]).toEqual([-2, 4, 1, 0x100, 5]);
      expect(view.uuidEnd - view.uuidStart).toBe(16);
      const headers = Headers.decode(frame.buffer, frame.headersStart, frame.headersEnd);
      expect(headers.getU64(2257)).toBe(0xffff_ffff_ffff_fffen);
    });
  });

  it("is refused without circuit or sequence", () => {
    const view = new PayloadView();
    const withHeaders = (headers: Headers) => encodeMessage({ contentType: XgressType.Payload, headers }, 1);
    parse(withHeaders(new Headers().setString(2256, "c")), (frame) => expect(readPayload(frame, view)).toBe(false));
    parse(withHeaders(new Headers().setU64(2257, 1n)), (frame) => expect(readPayload(frame, view)).toBe(false));
    parse(withHeaders(new Headers().setString(2256, "c").setU32(2257, 1)), (frame) =>
      expect(readPayload(frame, view)).toBe(false),
    );
  });
});

describe("acknowledgement", () => {
  it("is read in place", () => {
    const view = new AckView();
    parse(ackFrame, (frame) => {
      expect(readAck(frame, view)).toBe(true);
      expect(view.circuitId()).toBe(circuit);
      expect([view.count, view.sequence(0), view.rtt, view.receiveBufferSize, view.flags]).toEqual([1, 7, 6699, 5, 0]);
    });
  });

  it("is written byte for byte", () => {
    const template = new AckTemplate(circuit, 0);
    const target = Buffer.alloc(template.byteLength(1));
    expect(template.write(target, 0, 42, 6699, 5, Int32Array.of(7), 1)).toBe(target.length);
    expect(target.toString("hex")).toBe(ackFrame.toString("hex"));
  });

  it("carries the side's flag and many sequences, and echoes the clock of the oldest, with what it may tarry", () => {
    const batch = new AckBatch({ maxSequences: 3, maxBytes: 1_000 });
    expect(batch.add(9, 500, 10)).toBe(false);
    expect(batch.add(10, 502, 10)).toBe(false);
    expect(batch.add(8, 501, 10)).toBe(true);
    const template = new AckTemplate(circuit, XgressFlag.Terminator);
    const target = Buffer.alloc(template.byteLength(batch.count));
    expect(batch.write(template, target, 0, 1, 77)).toBe(target.length);
    expect(batch.count).toBe(0);
    const view = new AckView();
    parse(target, (frame) => {
      expect(readAck(frame, view)).toBe(true);
      expect([0, 1, 2].map((index) => view.sequence(index))).toEqual([9, 10, 8]);
      expect([view.rtt, view.flags, view.receiveBufferSize]).toEqual([400, 2, 77]);
    });
    expect(batch.add(11, 600, 1_000)).toBe(true);
  });

  it("without its receive buffer size blocks, and with a broken list is refused", () => {
    const view = new AckView();
    const headers = new Headers().setString(2256, "c");
    parse(encodeMessage({ contentType: XgressType.Acknowledgement, headers }, 1), (frame) => {
      expect(readAck(frame, view)).toBe(true);
      expect([view.count, view.receiveBufferSize, view.rtt]).toEqual([0, 0xffff_ffff, 0]);
    });
    parse(encodeMessage({ contentType: XgressType.Acknowledgement, headers, body: Buffer.alloc(6) }, 1), (frame) =>
      expect(readAck(frame, view)).toBe(false),
    );
  });
});

describe("the clock", () => {
  it("wraps every 65,536 ms", () => {
    expect(ms16(0x1_0000_0005)).toBe(5);
    expect(ms16(1_700_000_000_123.7)).toBe(1_700_000_000_123 % 65_536);
  });
});

describe("trace route control", () => {
  it("is a message of ordinary headers", () => {
    const headers = new Headers()
      .setU32(TraceHeader.HopCount, 2)
      .setU64(TraceHeader.Timestamp, 1_700_000_000_000n)
      .setU32(TraceHeader.UserValue, 17);
    const body = Buffer.concat([Buffer.of(XgressControl.TraceRoute), Buffer.from(circuit)]);
    expect(encodeMessage({ contentType: XgressType.Control, headers, body }, 9).toString("hex")).toBe(
      hex(`
      03 06 09 0c 4e 04 00 00 09 00 00 00 28 00 00 00 17 00 00 00
      14 00 00 00 04 00 00 00 02 00 00 00
      17 00 00 00 08 00 00 00 00 68 e5 cf 8b 01 00 00
      18 00 00 00 04 00 00 00 11 00 00 00
      01 35 65 73 76 35 36 30 58 58 64 33 31 32 4b 5a 57 48 62 75 6b 42 4e`).toString("hex"),
    );
  });
});
