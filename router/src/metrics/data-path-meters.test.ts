import { xgressCounters } from "@sallyport/wire";
import { expect, test } from "vitest";
import { linkCounters } from "../forwarder/link-counters.ts";
import { DataPathMeters } from "./data-path-meters.ts";
import { Meter } from "./meter.ts";

test("a meter starts with the first rate it sees, and lets the past fade", () => {
  const meter = new Meter(0);
  expect(meter.snapshot()).toEqual({ count: 0, m1Rate: 0, m5Rate: 0, m15Rate: 0, meanRate: 0 });
  meter.tick(50, 5_000);
  expect(meter.snapshot()).toEqual({ count: 50, m1Rate: 10, m5Rate: 10, m15Rate: 10, meanRate: 10 });
  for (let at = 10_000; at <= 65_000; at += 5_000) meter.tick(50, at);
  const { m1Rate, m5Rate, m15Rate, meanRate } = meter.snapshot();
  expect(m1Rate).toBeCloseTo(10 / Math.E);
  expect(m5Rate).toBeCloseTo(10 * Math.exp(-1 / 5));
  expect(m15Rate).toBeCloseTo(10 * Math.exp(-1 / 15));
  expect(meanRate).toBeCloseTo(50 / 65);
});

test("a counter that began anew does not make a meter fall", () => {
  const meter = new Meter(0);
  meter.tick(50, 5_000);
  meter.tick(20, 10_000);
  expect(meter.snapshot().count).toBe(70);
});

test("counters appear under the names operators know; those of a link go with it, the sums stay", () => {
  const xgress = { ...xgressCounters(), acksOut: 3, retransmissions: 2 };
  const link = { ...linkCounters(), payloadsOut: 4, payloadBytesOut: 4_000, dropped: 1, droppedRetransmits: 2 };
  let links = [{ id: "l1", counters: link }];
  const meters = new DataPathMeters({ xgress, links: () => links });
  const counts = () => Object.fromEntries([...meters.all()].map(([name, meter]) => [name, meter.snapshot().count]));
  expect(counts()).toMatchObject({
    "xgress.tx.acks": 3,
    "xgress.retransmissions": 2,
    "link.l1.tx.msgrate": 4,
    "link.l1.tx.bytesrate": 4_000,
    "link.dropped_msgs:l1": 3,
    "link.dropped_rtx_msgs:l1": 2,
    "fabric.tx.bytesrate": 4_000,
  });
  links = [{ id: "l2", counters: { ...linkCounters(), payloadBytesOut: 10 } }];
  meters.tick(Date.now());
  expect(counts()).toMatchObject({ "link.l2.tx.bytesrate": 10, "fabric.tx.bytesrate": 4_010 });
  expect(Object.keys(counts()).filter((name) => name.includes("l1"))).toEqual([]);
  meters.close();
});
