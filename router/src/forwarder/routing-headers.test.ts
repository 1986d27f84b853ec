import {
  BaseHeader,
  DEFAULT_LIMITS,
  EdgeHeader,
  encodeMessage,
  FrameParser,
  Headers,
  messageOf,
  XgressHeader,
  XgressType,
} from "@sallyport/wire";
import { headerOrders } from "@sallyport/wire/testing/header-orders";
import { expect, test } from "vitest";
import { copyWithoutHeartbeat, RoutingHeaders } from "./routing-headers.ts";

test("circuit id and flags are found, and heartbeats are cut out, in any order of the headers", () => {
  const kept = new Headers()
    .setString(XgressHeader.CircuitId, "circuit1")
    .setU32(XgressHeader.Flags, 2)
    .setU32(EdgeHeader.ConnId, 7);
  const all = kept.clone().setU64(BaseHeader.Heartbeat, 1n).setU64(BaseHeader.HeartbeatResponse, 2n);
  const headers = new RoutingHeaders();
  const target = Buffer.alloc(1_024);
  const passed: Record<string, Buffer>[] = [];
  const again = new FrameParser(DEFAULT_LIMITS, (frame) => {
    const { headers, body } = messageOf(frame);
    expect(body.toString()).toBe("body");
    passed.push(Object.fromEntries(headers.entries()));
  });
  const parser = new FrameParser(DEFAULT_LIMITS, (frame) => {
    expect(headers.read(frame)).toBe(true);
    expect(frame.buffer.toString("latin1", headers.idStart, headers.idEnd)).toBe("circuit1");
    expect(headers.flags).toBe(2);
    again.push(target, 0, copyWithoutHeartbeat(frame, target));
  });
  const orders = headerOrders(all);
  for (const ordered of orders) {
    parser.push(encodeMessage({ contentType: XgressType.Payload, headers: ordered, body: Buffer.from("body") }, 1));
  }
  expect(passed).toEqual(orders.map(() => Object.fromEntries(kept.entries())));
});
