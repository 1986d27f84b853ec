import { silentLogger } from "@sallyport/wire";
import { describe, expect, it } from "vitest";
import { Dispatcher, type EventOutput } from "./dispatcher.ts";
import type { EventBody } from "./event.ts";
import { readSubscription, SubscriptionError } from "./subscription.ts";
import { collector } from "./testing/collector.ts";

const NOW = "2026-01-02T03:04:05.678Z";

function dispatcher(): Dispatcher {
  return new Dispatcher({ sourceId: "ctrl", now: () => new Date(NOW), log: silentLogger });
}

const online: EventBody = { namespace: "router", event_type: "router-online", router_id: "r", router_online: true };

function usage(version: 2 | 3): EventBody {
  const common = {
    namespace: "usage",
    source_id: "r",
    circuit_id: "c",
    interval_start_utc: 60,
    interval_length: 60,
    tags: {},
  } as const;
  return version === 2
    ? { ...common, version, event_type: "usage.ingress.rx", usage: 7 }
    : { ...common, version, usage: { "ingress.rx": 7, "egress.tx": 9 } };
}

describe("the dispatcher", () => {
  it("adds who and when, and gives events to each subscriber until it unsubscribes", () => {
    const events = dispatcher();
    const output = collector();
    const end = events.subscribe(output, [readSubscription("router", undefined)]);
    events.emit(online);
    end();
    events.emit(online);
    expect(output.events).toEqual([
      {
        namespace: "router",
        event_src_id: "ctrl",
        timestamp: NOW,
        event_type: "router-online",
        router_id: "r",
        router_online: true,
      },
    ]);
  });

  it("says what is wanted, and tells sources when that changes", () => {
    const events = dispatcher();
    const seen: boolean[] = [];
    const stop = events.onDemand(() => seen.push(events.wants("router")));
    const ends = [1, 2].map(() => events.subscribe(collector(), [readSubscription("fabric.routers", {})]));
    for (const end of ends) end();
    stop();
    events.subscribe(collector(), [readSubscription("router", {})]);
    expect(seen).toEqual([false, true, true, true, false]);
  });

  it("delivers under the older name to a subscriber that asked by it", () => {
    const events = dispatcher();
    const [old, services] = [collector(), collector()];
    events.subscribe(old, [readSubscription("fabric.routers", undefined)]);
    events.subscribe(services, [readSubscription("services", undefined)]);
    events.emit(online);
    events.emit({
      namespace: "service",
      version: 2,
      event_type: "service.dial.success",
      service_id: "s",
      terminator_id: "t",
      count: 1,
      interval_start_utc: 0,
      interval_length: 60,
    });
    expect(old.events).toMatchObject([{ namespace: "fabric.routers" }]);
    expect(services.events).toMatchObject([{ namespace: "service.events" }]);
  });

  it("gives usage in the version and with the counters asked for", () => {
    const events = dispatcher();
    const [second, third, some] = [collector(), collector(), collector()];
    events.subscribe(second, [readSubscription("usage", undefined)]);
    events.subscribe(third, [readSubscription("usage", { version: 3 })]);
    events.subscribe(some, [readSubscription("usage", { version: "3", include: ["egress.tx"] })]);
    events.emit(usage(2));
    events.emit(usage(3));
    expect(second.events).toMatchObject([{ version: 2, event_type: "usage.ingress.rx", usage: 7 }]);
    expect(third.events).toMatchObject([{ version: 3, usage: { "ingress.rx": 7, "egress.tx": 9 } }]);
    expect(some.events.map((event) => event.usage)).toEqual([{ "egress.tx": 9 }]);
  });

  it("filters metrics by source and by name", () => {
    const events = dispatcher();
    const [bySource, byName] = [collector(), collector()];
    events.subscribe(bySource, [readSubscription("metrics", { sourceFilter: "^other$" })]);
    events.subscribe(byName, [readSubscription("metrics", { metricFilter: "latency\\.(mean|p95)" })]);
    events.emit({
      namespace: "metrics",
      version: 3,
      metric_type: "histogram",
      source_id: "r",
      metric: "link.latency",
      metrics: { mean: 1, p95: 2, p99: 3 },
      source_event_id: "e",
    });
    expect(bySource.events).toEqual([]);
    expect(byName.events).toMatchObject([{ metrics: { mean: 1, p95: 2 } }]);
    expect(Object.keys(byName.events[0]?.metrics as object)).toEqual(["mean", "p95"]);
  });

  it("gives periodic events to those who asked for that period", () => {
    const events = dispatcher();
    const [fast, slow] = [collector(), collector()];
    events.subscribe(fast, [readSubscription("entityCount", { interval: "1s" })]);
    events.subscribe(slow, [readSubscription("entityCount", { interval: "1m0s" })]);
    expect(events.intervals("entityCount")).toEqual(new Set([1_000, 60_000]));
    events.emitPeriodic({ namespace: "entityCount", counts: { services: 1 }, error: "" }, 1_000);
    expect([fast.events.length, slow.events.length]).toEqual([1, 0]);
  });

  it("goes on when an output fails", () => {
    const events = dispatcher();
    const broken: EventOutput = {
      name: "broken",
      write: () => {
        throw new Error("full");
      },
    };
    const output = collector();
    events.subscribe(broken, [readSubscription("router", {})]);
    events.subscribe(output, [readSubscription("router", {})]);
    events.emit(online);
    expect(output.events).toHaveLength(1);
  });
});

describe("subscriptions that cannot be made", () => {
  it.each([
    ["circuits", undefined, /one of alert, apiSession/],
    ["router", { every: 1 }, /every/],
    ["router", [], /not an object/],
    ["usage", { version: 1 }, /2 or 3/],
    ["metrics", { metricFilter: "(a" }, /regular expression/],
    ["metrics", { metricFilter: "(?=a)" }, /cannot be used/],
    [17, undefined, /one of alert, apiSession/],
  ])("%j with %j", (type, options, message) => {
    expect(() => readSubscription(type, options)).toThrow(SubscriptionError);
    expect(() => readSubscription(type, options)).toThrow(message);
  });
});
