import { ControlType, ctrlPb, EdgeCtrlType, edgeCtrlPb, encodeControl, metricsPb, silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Circuit } from "../../fabric/circuits/circuit.ts";
import { CircuitFailureCause, type FabricEvent } from "../../fabric/fabric-events.ts";
import { TestFabric } from "../../fabric/testing/test-fabric.ts";
import { Dispatcher } from "../dispatcher.ts";
import { readSubscription } from "../subscription.ts";
import { collector } from "../testing/collector.ts";
import { ServiceCounters } from "./counts.ts";
import { startFabricSource } from "./fabric-source.ts";
import { UsageTotals } from "./router-reports.ts";

let fabric: TestFabric;
let dispatcher: Dispatcher;
let stop: () => void;
let isTeller: boolean;
const routersTold: string[] = [];

beforeEach(async () => {
  isTeller = true;
  routersTold.length = 0;
  fabric = await TestFabric.start();
  dispatcher = new Dispatcher({ sourceId: "ctrl1", log: silentLogger });
  stop = startFabricSource({
    controllerId: "ctrl1",
    now: Date.now,
    fabric: fabric.fabric,
    sink: dispatcher,
    isTeller: () => isTeller,
    services: new ServiceCounters(dispatcher),
    terminators: { routerChanged: (id, type) => routersTold.push(`${id} ${type}`) },
  });
});
afterEach(async () => {
  stop();
  await fabric.stop();
});

function follow(type: string, options: Record<string, unknown> = {}) {
  const output = collector();
  dispatcher.subscribe(output, [readSubscription(type, options)]);
  return output;
}

describe("events of the fabric", () => {
  it("tell of routers and their connections", async () => {
    const [routers, connects] = [follow("router"), follow("connect")];
    follow("terminator");
    const router = await fabric.connect("r1");
    router.close();
    await expect.poll(() => routers.events.length).toBe(2);
    expect(routers.events).toMatchObject([
      { event_type: "router-online", router_id: "r1", router_online: true },
      { event_type: "router-offline", router_id: "r1", router_online: false },
    ]);
    expect(connects.events).toMatchObject([
      { src_type: "router", src_id: "r1", dst_type: "ctrl", dst_id: "ctrl1", src_addr: expect.stringMatching(/:\d+$/) },
    ]);
    expect(routersTold).toEqual(["r1 router-online", "r1 router-offline"]);
  });

  it("that every controller sees are told by one; each tells of its own connection", async () => {
    isTeller = false;
    const [all, connects] = [collector(), follow("connect")];
    const seenByAll = ["router", "link", "sdk", "terminator"].map((type) => readSubscription(type, {}));
    dispatcher.subscribe(all, seenByAll);
    const r1 = await fabric.connect("r1");
    const links = [{ id: "l1", destRouterId: "r2", linkProtocol: "tls", dialAddress: "tls:b:1", iteration: 1 }];
    r1.send(ControlType.RouterLinks, encodeControl(ctrlPb.RouterLinksSchema, { links }));
    await expect.poll(() => fabric.fabric.links().length).toBe(1);
    r1.close();
    await expect.poll(() => fabric.fabric.onlineRouterIds()).toEqual([]);
    expect([all.events, routersTold]).toEqual([[], []]);
    expect(connects.events).toMatchObject([{ src_id: "r1", dst_id: "ctrl1" }]);
  });

  it("tell of links: new ones, known ones, faults and duplicates", async () => {
    const links = follow("link");
    const r1 = await fabric.connect("r1");
    const report = encodeControl(ctrlPb.RouterLinksSchema, {
      links: [{ id: "l1", destRouterId: "r2", linkProtocol: "tls", dialAddress: "tls:r2:1", iteration: 1 }],
    });
    r1.send(ControlType.RouterLinks, report);
    r1.send(ControlType.RouterLinks, report);
    const subject = ctrlPb.FaultSubject.LinkDuplicate;
    r1.send(ControlType.Fault, encodeControl(ctrlPb.FaultSchema, { subject, id: "l1", iteration: 1 }));
    await expect.poll(() => links.events.length).toBe(4);
    expect(links.events.map((event) => event.event_type)).toEqual([
      "routerLinkNew",
      "routerLinkDisconnectedDest",
      "routerLinkKnown",
      "duplicate",
    ]);
    expect(links.events[0]).toMatchObject({ link_id: "l1", src_router_id: "r1", dst_router_id: "r2", protocol: "tls" });
  });

  it("tell of alerts that routers raise", async () => {
    const alerts = follow("alert");
    const r1 = await fabric.connect("r1");
    const alert = {
      sourceType: "self",
      timestamp: 1_700_000_000_000n,
      severity: "error",
      message: "m",
      details: ["d"],
    };
    const relatedEntities = { self: "self", service: "s1" };
    r1.send(ControlType.Alerts, encodeControl(ctrlPb.AlertsSchema, { alerts: [{ ...alert, relatedEntities }] }));
    await expect.poll(() => alerts.events.length).toBe(1);
    expect(alerts.events).toEqual([
      {
        ...{ namespace: "alert", event_src_id: "ctrl1", timestamp: "2023-11-14T22:13:20.000Z" },
        ...{ alert_source_type: "router", alert_source_id: "r1", severity: "error", message: "m", details: ["d"] },
        related_entities: { router: "r1", service: "s1" },
      },
    ]);
  });

  it("tell of circuits, in the order of fields that OpenZiti has", () => {
    let tell: (event: FabricEvent) => void = () => undefined;
    const circuits = follow("circuit");
    startFabricSource({
      controllerId: "ctrl1",
      now: Date.now,
      fabric: {
        onEvent: (listener) => {
          tell = listener;
          return () => undefined;
        },
        pathCost: () => 7,
        links: () => [],
        onlineRouterIds: () => [],
      },
      sink: dispatcher,
      services: new ServiceCounters(dispatcher),
      terminators: { routerChanged: () => undefined },
    });
    const route = { routers: ["r1"], links: [], ingressId: "i", egressId: "e" };
    const circuit = { id: "c1", route, addresses: {}, tags: {}, createdAt: new Date() } as unknown as Circuit;
    tell({ kind: "circuit-created", circuit, timespanMs: 2 });
    tell({ kind: "circuit-removed", circuit, reason: "closed" });
    expect(circuits.events).toMatchObject([
      { event_type: "created", creation_timespan: 2_000_000, path_cost: 7 },
      { event_type: "deleted", path_cost: 7, duration: expect.any(Number) },
    ]);
    const lastFields = circuits.events.map((event) => Object.keys(event).slice(-3));
    expect(lastFields).toEqual([
      ["tags", "creation_timespan", "path_cost"],
      ["tags", "path_cost", "duration"],
    ]);
  });

  it("tell of identities that come, go, and may be anywhere", async () => {
    const [sdks, connects] = [follow("sdk"), follow("connect")];
    const [r1, r2] = [await fabric.connect("r1"), await fabric.connect("r2")];
    const say = (router: typeof r1, isConnected: boolean, fullState = false) =>
      router.send(
        EdgeCtrlType.ConnectEvents,
        encodeControl(edgeCtrlPb.ConnectEventsSchema, {
          fullState,
          events: [
            {
              identityId: "i1",
              isConnected,
              connectTimes: isConnected ? [{ connectTime: 1_000n, srcAddr: "10.0.0.1:5", dstAddr: "10.0.0.2:6" }] : [],
            },
          ],
        }),
      );
    say(r1, true);
    await r1.roundTrip();
    say(r2, true);
    await r2.roundTrip();
    say(r1, false);
    await r1.roundTrip();
    expect(sdks.events).toMatchObject([{ event_type: "sdk-online", identity_id: "i1" }]);
    say(r2, false);
    await r2.roundTrip();
    expect(sdks.events.map((event) => event.event_type)).toEqual(["sdk-online", "sdk-offline"]);
    expect(connects.events.filter((event) => event.src_type === "identity")).toMatchObject([
      { src_id: "i1", dst_type: "router", dst_id: "r1", timestamp: "1970-01-01T00:00:01.000Z" },
      { dst_id: "r2" },
    ]);
  });

  it("tell of usage and metrics that routers report, and count the bytes", async () => {
    const totals = new UsageTotals();
    fabric.fabric.onEvent((event) => event.kind === "router-metrics" && totals.add(event.metrics));
    const [third, second, metrics] = [follow("usage", { version: 3 }), follow("usage"), follow("metrics")];
    const r1 = await fabric.connect("r1");
    const report = (sourceId: string) =>
      r1.send(
        ControlType.Metrics,
        encodeControl(metricsPb.MetricsMessageSchema, {
          sourceId,
          timestamp: { seconds: 60n, nanos: 0 },
          intValues: { "ctrl.queue:ctrl1": 3n },
          histograms: { "link.l.1.latency": { count: 2n, mean: 5, p95: 6 } },
          meters: { "link.l.1.tx.bytesrate": { count: 9n, m1Rate: 2 } },
          usageCounters: [
            {
              intervalStartUtc: 60n,
              intervalLength: 60n,
              buckets: { c1: { values: { "ingress.rx": 10n, "egress.tx": 20n, other: 1n }, tags: { serviceId: "s" } } },
            },
          ],
        }),
      );
    report("r1");
    report("another router");
    await r1.roundTrip();
    expect(third.events).toMatchObject([
      {
        version: 3,
        source_id: "r1",
        circuit_id: "c1",
        usage: { "ingress.rx": 10, "egress.tx": 20 },
        tags: { serviceId: "s" },
      },
    ]);
    expect(second.events).toHaveLength(3);
    expect(second.events[0]).toMatchObject({
      version: 2,
      event_type: "usage.ingress.rx",
      usage: 10,
      interval_start_utc: 60,
    });
    expect(metrics.events).toMatchObject([
      { metric_type: "intValue", metric: "ctrl.queue", source_entity_id: "ctrl1", metrics: { value: 3 } },
      { metric_type: "meter", metric: "link.tx.bytesrate", source_entity_id: "l.1", metrics: { count: 9, m1_rate: 2 } },
      { metric_type: "histogram", metric: "link.latency", source_entity_id: "l.1", metrics: { mean: 5, p95: 6 } },
    ]);
    expect(totals.byCounter()).toEqual({ "ingress.rx": 10, "egress.tx": 20 });
  });
});

describe("dials of services", () => {
  it("are counted by outcome and told when their minute is over", () => {
    const services = follow("service");
    let now = 60_000;
    const counters = new ServiceCounters(dispatcher, () => now);
    counters.count("service.dial.success", "s", "t");
    counters.count("service.dial.success", "s", "t");
    counters.dialFailed({ serviceId: "s", terminatorId: "t", cause: CircuitFailureCause.RouterConnectionRefused });
    counters.circuitFailed({ serviceId: "s", terminatorId: "" });
    counters.flush();
    expect(services.events).toEqual([]);
    now = 120_000;
    counters.flush();
    const told = services.events.map(({ event_type, terminator_id, count }) => [event_type, terminator_id, count]);
    expect(told).toEqual([
      ["service.dial.success", "t", 2],
      ["service.dial.fail", "t", 1],
      ["service.dial.terminator.connection_refused", "t", 1],
      ["service.dial.error_other", "", 1],
    ]);
    expect(services.events[0]).toMatchObject({ interval_start_utc: 60, interval_length: 60 });
    counters.stop();
  });

  it("are not counted without a subscriber", () => {
    const counters = new ServiceCounters(dispatcher, () => 0);
    counters.count("service.dial.success", "s", "t");
    const services = follow("service");
    counters.stop();
    expect(services.events).toEqual([]);
  });
});
