import { expect, test } from "vitest";
import { linkCounters } from "../forwarder/counted-output.ts";
import { Histogram } from "./histogram.ts";
import { LinkMetrics } from "./link-metrics.ts";

test("what a link counted goes with it, the sums over all links stay", () => {
  const first = { ...linkCounters(), payloadsOut: 4, payloadBytesOut: 4_000, dropped: 1, droppedRetransmits: 2 };
  const latency = new Histogram();
  latency.update(5);
  let links = [{ id: "l1", counters: first, histograms: () => [["link.l1.latency", latency] as const] }];
  const metrics = new LinkMetrics(() => links);
  expect(Object.fromEntries(metrics.totals())).toMatchObject({
    "link.l1.tx.msgrate": 4,
    "link.l1.tx.bytesrate": 4_000,
    "link.l1.rx.bytesrate": 0,
    "link.dropped_msgs:l1": 3,
    "link.dropped_fwd_msgs:l1": 1,
    "link.dropped_rtx_msgs:l1": 2,
    "fabric.tx.bytesrate": 4_000,
    "fabric.rx.msgrate": 0,
  });
  expect(new Map(metrics.histograms()).get("link.l1.tx.msgsize")?.snapshot()).toMatchObject({ count: 4, mean: 1_000 });
  expect(new Map(metrics.histograms()).get("link.l1.latency")?.count).toBe(1);

  const second = { ...linkCounters(), payloadBytesOut: 10, payloadsOut: 1, payloadBytesIn: 7, payloadsIn: 1 };
  links = [{ id: "l2", counters: second, histograms: () => [] }];
  const totals = Object.fromEntries(metrics.totals());
  expect(totals).toMatchObject({ "link.l2.tx.bytesrate": 10, "fabric.tx.bytesrate": 4_010, "fabric.rx.bytesrate": 7 });
  const names = [...Object.keys(totals), ...[...metrics.histograms()].map(([name]) => name)];
  expect(names.filter((name) => name.includes("l1"))).toEqual([]);
  expect(new Map(metrics.histograms()).get("fabric.tx.msgsize")?.count).toBe(5);
});

test("a link that came back under its old id starts again, and nothing is counted twice", () => {
  let counters = { ...linkCounters(), payloadBytesOut: 100, payloadsOut: 1 };
  const metrics = new LinkMetrics(() => [{ id: "l1", counters, histograms: () => [] }]);
  for (let i = 0; i < 3; i++) expect(Object.fromEntries(metrics.totals())["fabric.tx.bytesrate"]).toBe(100);
  counters = { ...linkCounters(), payloadBytesOut: 5, payloadsOut: 1 };
  for (let i = 0; i < 3; i++) expect(Object.fromEntries(metrics.totals())["fabric.tx.bytesrate"]).toBe(105);
});
