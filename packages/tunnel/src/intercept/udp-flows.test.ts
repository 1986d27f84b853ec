import { silentLogger } from "@sallyport/wire";
import { afterEach, expect, test } from "vitest";
import type { UdpFlow } from "../interceptor.ts";
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
    ...{ idleTimeoutMs: 60_000, checkIntervalMs: 60_000, maxFlows: 10, log: silentLogger },
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

test("one source has three quarters of the flows at most, and gets more when some have ended", () => {
  const made: { sourceIp: string; flow: UdpFlow }[] = [];
  flows = new UdpFlows({
    accept:
      ({ sourceIp }) =>
      (flow) =>
        made.push({ sourceIp, flow }),
    ...{ idleTimeoutMs: 60_000, checkIntervalMs: 60_000, maxFlows: 8, log: silentLogger },
  });
  let sourcePort = 1_000;
  const sendFrom = (sourceIp: string, times: number): number => {
    const before = made.length;
    for (let i = 0; i < times; i++) {
      const ends = { sourceIp, sourcePort: sourcePort++, destinationIp: "192.0.2.2", destinationPort: 53 };
      flows.take({ ...ends, buffer: Buffer.from("x") }, () => ({ send: () => {}, close: () => {} }));
    }
    return made.length - before;
  };
  expect(sendFrom("192.0.2.1", 20)).toBe(6);
  expect(sendFrom("192.0.2.9", 20)).toBe(2);
  made[0]?.flow.close();
  expect(sendFrom("192.0.2.9", 5)).toBe(1);
  // One network of IPv6 is one source.
  for (const { flow } of made) flow.close();
  expect(sendFrom("2001:db8::1", 4) + sendFrom("2001:db8::2", 4)).toBe(6);
});
