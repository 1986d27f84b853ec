import { expect, test } from "vitest";
import { EdgeHeader } from "../../catalogue/edge.ts";
import { XgressHeader, XgressType } from "../../catalogue/xgress.ts";
import { FrameParser, type FrameView } from "../../frame/frame.ts";
import { CircuitFrame } from "./circuit-frame.ts";

/** A payload with circuit ids behind so many headers that are none of a circuit's. */
function withForeignHeaders(count: number, circuitIds = ["circuit1"]): Buffer {
  const entry = (key: number, value: Buffer): Buffer => {
    const prefix = Buffer.alloc(8);
    prefix.writeInt32LE(key, 0);
    prefix.writeInt32LE(value.length, 4);
    return Buffer.concat([prefix, value]);
  };
  const foreign = Array.from({ length: count }, (_, i) => entry(EdgeHeader.ConnId, Buffer.from([i & 255, 0, 0, 0])));
  const ids = circuitIds.map((id) => entry(XgressHeader.CircuitId, Buffer.from(id)));
  const headers = Buffer.concat([...foreign, ...ids]);
  const frame = Buffer.alloc(20);
  Buffer.from([3, 6, 9, 12]).copy(frame);
  frame.writeInt32LE(XgressType.Payload, 4);
  frame.writeInt32LE(headers.length, 12);
  frame.writeInt32LE(4, 16);
  return Buffer.concat([frame, headers, Buffer.from("body")]);
}

function takes(bytes: Buffer): boolean[] {
  const taken: boolean[] = [];
  const view = new CircuitFrame();
  const parser = new FrameParser({ maxHeaders: 65_536, maxBody: 1_024 }, (frame: FrameView) => {
    taken.push(view.take(frame));
  });
  parser.push(bytes);
  return taken;
}

test("refuses a frame whose many headers would cost a copy each", () => {
  expect(takes(withForeignHeaders(16))).toEqual([true]);
  expect(takes(withForeignHeaders(17))).toEqual([false]);
  expect(takes(withForeignHeaders(5_000))).toEqual([false]);
});

test("refuses a frame that names two circuits: who reads it next might take the other one", () => {
  expect(takes(withForeignHeaders(1, ["mine", "mine2"]))).toEqual([false]);
});
