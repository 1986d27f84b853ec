import { silentLogger } from "@sallyport/wire";
import { afterEach, expect, test } from "vitest";
import { UdpFlows } from "./udp-flows.ts";

let flows: UdpFlows;
afterEach(() => flows.close());

test("datagrams from or to port 0, which only forged packets have, make no flow", () => {
  const accepted: number[] = [];
  const opened: number[] = [];
  flows = new UdpFlows({
    accept: ({ sourcePort }) => {
      accepted.push(sourcePort);
      return () => {};
    },
    ...{ idleTimeoutMs: 60_000, checkIntervalMs: 60_000, mostFlows: 10, log: silentLogger },
  });
  for (const [sourcePort, destinationPort] of [
    [0, 53],
    [5_000, 0],
    [5_000, 53],
  ] as const) {
    const ends = { sourceIp: "192.0.2.1", destinationIp: "192.0.2.2", sourcePort, destinationPort };
    flows.take({ ...ends, buffer: Buffer.from("x") }, (addresses) => {
      opened.push(addresses.sourcePort);
      return { send: () => {}, close: () => {} };
    });
  }
  expect([accepted, opened, flows.size]).toEqual([[5_000], [5_000], 1]);
});
