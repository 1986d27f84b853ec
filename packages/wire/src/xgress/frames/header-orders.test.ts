import { describe, expect, it } from "vitest";
import { BaseHeader } from "../../catalogue/base.ts";
import { EdgeHeader } from "../../catalogue/edge.ts";
import { PayloadHeader, XgressFlag, XgressHeader, XgressType } from "../../catalogue/xgress.ts";
import { DEFAULT_LIMITS, FrameParser, type FrameView } from "../../frame/frame.ts";
import { Headers } from "../../frame/headers.ts";
import { encodeMessage, messageOf } from "../../frame/message.ts";
import { headerOrders } from "../../testing/header-orders.ts";
import { AckView, readAck } from "../receive/acknowledgement.ts";
import { CircuitFrame } from "./circuit-frame.ts";
import { PayloadView, readPayload } from "./payload.ts";

const CIRCUIT = "5esv560XXd312KZWHbukBN";
const CONN_ID = 77;
const BODY = Buffer.from("00000007", "hex");

const circuitHeaders = (): Headers =>
  new Headers()
    .setString(XgressHeader.CircuitId, CIRCUIT)
    .setU64(XgressHeader.Sequence, 7n)
    .setU32(XgressHeader.Flags, XgressFlag.Terminator)
    .setU16(XgressHeader.Rtt, 6_699);

/** Calls `look` with a frame of these headers in every order. */
function inEveryOrder(contentType: number, headers: Headers, look: (frame: FrameView, order: string) => void): void {
  let seen = 0;
  let order = "";
  const parser = new FrameParser(DEFAULT_LIMITS, (frame) => {
    seen++;
    look(frame, order);
  });
  const orders = headerOrders(headers);
  for (const ordered of orders) {
    order = [...ordered.entries()].map(([key]) => key).join(" ");
    parser.push(encodeMessage({ contentType, headers: ordered, body: BODY }, 1));
  }
  expect(seen).toBe(orders.length);
}

describe("headers in any order", () => {
  it("a payload", () => {
    const headers = circuitHeaders()
      .setU32(XgressHeader.FirstPayloadHeader + PayloadHeader.EdgeFlags, 5)
      .set(XgressHeader.FirstPayloadHeader + PayloadHeader.Uuid, Buffer.from("trace"));
    const view = new PayloadView();
    inEveryOrder(XgressType.Payload, headers, (frame, order) => {
      expect(readPayload(frame, view), order).toBe(true);
      expect([view.circuitId(), view.sequence, view.flags, view.rtt, view.edgeFlags], order).toEqual([
        ...[CIRCUIT, 7, XgressFlag.Terminator, 6_699, 5],
      ]);
      expect(view.buffer.toString("latin1", view.uuidStart, view.uuidEnd), order).toBe("trace");
    });
  });

  it("an acknowledgement", () => {
    const headers = circuitHeaders().setU32(XgressHeader.ReceiveBufferSize, 9);
    const view = new AckView();
    inEveryOrder(XgressType.Acknowledgement, headers, (frame, order) => {
      expect(readAck(frame, view), order).toBe(true);
      expect([view.circuitId(), view.flags, view.rtt, view.receiveBufferSize, view.sequence(0)], order).toEqual([
        ...[CIRCUIT, XgressFlag.Terminator, 6_699, 9, 7],
      ]);
    });
  });

  it("a circuit's frame of an edge channel, from which foreign headers are cut wherever they stand", () => {
    const headers = circuitHeaders()
      .setU32(EdgeHeader.ConnId, CONN_ID)
      .set(BaseHeader.Heartbeat, Buffer.alloc(8, 1))
      .setString(3_000, "unknown");
    const view = new CircuitFrame();
    inEveryOrder(XgressType.Payload, headers, (frame, order) => {
      expect(view.take(frame), order).toBe(true);
      expect([view.circuitId(), view.connId, view.isFromTerminator], order).toEqual([CIRCUIT, CONN_ID, true]);
      const passed = messageOf(view);
      expect(passed.body.equals(BODY), order).toBe(true);
      expect(Object.fromEntries(passed.headers.entries()), order).toEqual(
        Object.fromEntries(circuitHeaders().entries()),
      );
    });
  });

  it("a message that is decoded", () => {
    const headers = circuitHeaders().setI32(BaseHeader.ReplyFor, 3).setBool(BaseHeader.ResultSuccess, true);
    inEveryOrder(XgressType.Control, headers, (frame, order) => {
      const message = messageOf(frame);
      expect(message.replyFor, order).toBe(3);
      expect(Object.fromEntries(message.headers.entries()), order).toEqual(Object.fromEntries(headers.entries()));
    });
  });
});
