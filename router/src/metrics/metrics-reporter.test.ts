import { ControlType, DestinationType, decodeControl, type Message, metricsPb, silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeAll, expect, it } from "vitest";
import type { Controllers } from "../control/controllers/controllers.ts";
import { Circuit } from "../forwarder/circuit.ts";
import { ScriptedController, testControllers } from "../testing/scripted-controller.ts";
import { Histogram } from "./histogram.ts";
import { MetricsReporter } from "./metrics-reporter.ts";
import type { MetricsSource } from "./router-metrics.ts";
import { Usage } from "./usage.ts";

let authority: TestAuthority;
let controllers: Controllers | undefined;
const stops: (() => unknown)[] = [];
const circuit = new Circuit("c1", "ctrl1", Date.now(), { serviceId: "s1" });
circuit.route("x1", "l1").leadsTo = DestinationType.Link;
const latency = new Histogram();
const NEVER = 1_000_000_000;
let reports = 0;

const source: MetricsSource = {
  gauges: () => [["edge.connections", ++reports]],
  meters: () => [["xgress.tx.acks", { count: 3, m1Rate: 1, m5Rate: 2, m15Rate: 3, meanRate: 4 }]],
  histograms: () => [
    ["link.l1.latency", latency],
    ["link.l2.latency", new Histogram()],
  ],
  timers: () => [
    [
      "pool.link.dialer.work_timer",
      { histogram: latency, meter: { count: 1, m1Rate: 5, m5Rate: 6, m15Rate: 7, meanRate: 8 } },
    ],
  ],
};

beforeAll(async () => {
  authority = await TestAuthority.create();
  latency.update(1_000);
  latency.update(3_000);
});

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function controller(id: string): Promise<ScriptedController> {
  const made = await ScriptedController.start(await authority.identity(id), id);
  stops.push(() => made.close());
  return made;
}

async function reporter(queueLength = 10): Promise<MetricsReporter> {
  controllers = testControllers(await authority.identity("r1"));
  const usage = new Usage({
    ...{ circuits: () => [circuit], intervalMs: 1_000, minAgeMs: 0, endedQueue: 16, log: silentLogger },
  });
  const made = new MetricsReporter({
    ...{ routerId: "r1", controllers, intervalMs: NEVER, queueLength, source, usage, log: silentLogger },
  });
  const used = controllers;
  stops.push(
    () => used.stop(),
    () => usage.close(),
    () => made.close(),
  );
  return made;
}

function read(message: Message): metricsPb.MetricsMessage {
  return decodeControl(metricsPb.MetricsMessageSchema, message.body);
}

it("reports all kinds; what has no sample is left out, and one controller of several may pass it on", async () => {
  const both = [await controller("ctrl1"), await controller("ctrl2")] as const;
  const made = await reporter();
  controllers?.setEndpoints(both.map((each) => each.address));
  for (const each of both) await each.channel();
  await expect.poll(() => controllers?.all().length).toBe(2);
  made.report();
  const next = async (from: ScriptedController) => read(await from.next(ControlType.Metrics));
  const numberOf = (report: metricsPb.MetricsMessage) => report.intValues["edge.connections"] ?? 0n;
  let [one, two] = [await next(both[0]), await next(both[1])];
  // The controller that connected first may have had reports alone.
  while (numberOf(one) < numberOf(two)) one = await next(both[0]);
  while (numberOf(two) < numberOf(one)) two = await next(both[1]);
  expect([one.doNotPropagate, two.doNotPropagate].sort()).toEqual([false, true]);
  expect(one.eventId).toBe(two.eventId);
  expect(one).toMatchObject({
    sourceId: "r1",
    meters: { "xgress.tx.acks": { count: 3n, m1Rate: 1, m5Rate: 2, m15Rate: 3, meanRate: 4 } },
    histograms: { "link.l1.latency": { count: 2n, mean: 2_000, min: 1_000n, max: 3_000n } },
    timers: { "pool.link.dialer.work_timer": { count: 2n, mean: 2_000, m1Rate: 5, meanRate: 8 } },
  });
  expect(Object.keys(one.histograms)).toEqual(["link.l1.latency"]);
});

it("keeps reports in order while no controller takes them, makes no more than it may keep, and loses no usage", async () => {
  const ctrl = await controller("ctrl1");
  const made = await reporter(3);
  const before = reports;
  const forward = circuit.from("x1");
  for (let i = 0; i < 5; i++) made.report();
  expect(made.waiting).toBe(3);
  if (forward !== undefined) forward.bytes += 77;
  controllers?.setEndpoints([ctrl.address]);
  for (let i = 1; i <= 3; i++) {
    expect(read(await ctrl.next(ControlType.Metrics)).intValues["edge.connections"]).toBe(BigInt(before + i));
  }
  made.flush();
  for (;;) {
    const { usageCounters } = read(await ctrl.next(ControlType.Metrics));
    if (usageCounters.length === 0) continue;
    expect(usageCounters).toMatchObject([
      { intervalLength: 1n, buckets: { c1: { values: { "fabric.tx": 77n }, tags: { serviceId: "s1" } } } },
    ]);
    break;
  }
  expect(made.waiting).toBe(0);
});
