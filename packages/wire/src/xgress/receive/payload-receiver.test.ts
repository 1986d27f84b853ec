import { expect, test } from "vitest";
import type { FrameView } from "../../frame/frame.ts";
import { JoinedFabric } from "../../testing/joined-fabric.ts";
import { PayloadTemplate, PayloadView, payloadHeaders, readPayload } from "../frames/payload.ts";
import { flowDefaults } from "../options.ts";
import { PayloadReceiver } from "./payload-receiver.ts";

const KIB = 1024;

/** A receiver whose local side takes nothing. */
function stuckReceiver() {
  const fabric = new JoinedFabric();
  const { pool, counters, acks } = fabric;
  const nowhere = { wait() {}, payload() {}, retransmit() {}, report: () => false as const, ack() {}, control() {} };
  const receiver = new PayloadReceiver({
    circuitId: "c",
    isTerminator: false,
    path: { ...nowhere, isOpen: false, close() {} },
    pool,
    options: { ...flowDefaults, rxBufferSize: 64 * KIB, txPortalMaxSize: 64 * KIB },
    counters,
    acks,
    handOut: () => false,
  });
  return { receiver, counters, acks };
}

function payload(sequence: number, body: number, extra?: Buffer): FrameView {
  const template = new PayloadTemplate("c");
  const headersEnd = template.byteLength(0, extra);
  const buffer = Buffer.alloc(headersEnd + body);
  template.write(buffer, 0, 0, sequence, 0, 0, body, extra);
  const where = { start: 0, headersStart: 20, headersEnd, bodyStart: headersEnd, end: buffer.length };
  return { buffer, contentType: 1100, sequence: 0, carriesHeartbeat: false, ...where };
}

test.each([
  ["without data", 0, undefined],
  ["of one byte", 1, undefined],
  ["without data but with large headers", 0, payloadHeaders({ uuid: Buffer.alloc(16 * KIB) })],
])("payloads %s are held up to a bound, like others", (_what, body, extra) => {
  const { receiver, counters, acks } = stuckReceiver();
  const view = new PayloadView();
  let bytes = 0;
  for (let sequence = 0; sequence < 20_000; sequence++) {
    const frame = payload(sequence, body, extra);
    readPayload(frame, view);
    const dropped = counters.dropped;
    receiver.arrived(frame, view);
    if (counters.dropped > dropped) break;
    bytes += frame.end;
  }
  acks.close();
  expect(counters.dropped).toBe(1);
  expect(bytes).toBeLessThan(512 * KIB);
});
