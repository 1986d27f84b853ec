import { silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Dispatcher } from "../events/dispatcher.ts";
import type { EventBody } from "../events/event.ts";
import { readSubscription } from "../events/subscription.ts";
import { collector } from "../events/testing/collector.ts";
import { NetworkEvents } from "./network-events.ts";
import { TestReplicas } from "./testing/test-replicas.ts";

interface Side {
  readonly id: string;
  readonly dispatcher: Dispatcher;
  readonly events: NetworkEvents;
}

let replicas: TestReplicas;
let one: Side;
let two: Side;
beforeEach(async () => {
  replicas = await TestReplicas.create();
  [one, two] = [await start("one"), await start("two")];
});
afterEach(() => replicas.close());

async function start(id: string): Promise<Side> {
  const { calls } = await replicas.start(id);
  const dispatcher = new Dispatcher({ sourceId: id, log: silentLogger });
  return { id, dispatcher, events: new NetworkEvents(calls, dispatcher, silentLogger) };
}

const online = (router_id: string): EventBody => ({
  ...{ namespace: "router", event_type: "router-online", router_id, router_online: true },
});

async function stream(side: Side, ...types: string[]) {
  const output = collector();
  const wanted = types.map((type) => readSubscription(type, undefined));
  const unwant = await side.events.want(wanted.map(({ namespace }) => namespace));
  const end = side.dispatcher.subscribe(output, wanted, "network");
  return {
    told: () =>
      output.events.map(({ namespace, event_src_id, router_id }) => `${namespace} ${router_id} of ${event_src_id}`),
    end: () => {
      end();
      unwant();
    },
  };
}

it("a stream has the events of every controller, each with the id of the one that tells it, and a file only those of its own", async () => {
  const file = collector();
  one.dispatcher.subscribe(file, [readSubscription("router", undefined)]);
  expect(two.dispatcher.wants("router")).toBe(false);
  const { told, end } = await stream(one, "fabric.routers");
  expect(two.dispatcher.wants("router")).toBe(true);
  expect(two.dispatcher.wants("circuit")).toBe(false);
  one.dispatcher.emit(online("a"));
  two.dispatcher.emit(online("b"));
  await vi.waitFor(() => expect(told()).toHaveLength(2));
  expect(told()).toEqual(["fabric.routers a of one", "fabric.routers b of two"]);
  expect(file.events).toMatchObject([{ router_id: "a" }]);
  end();
  await vi.waitFor(() => expect(two.dispatcher.wants("router")).toBe(false));
});

it("two streams at different controllers get each event once", async () => {
  const streams = [await stream(one, "router"), await stream(two, "router")];
  for (const side of [one, two]) side.dispatcher.emit(online(side.id));
  for (const { told } of streams) {
    await vi.waitFor(() => expect(told().sort()).toEqual(["router one of one", "router two of two"]));
  }
});

it("a controller that comes later, or comes back, is asked, too", async () => {
  const { told } = await stream(one, "router");
  const three = await start("three");
  await vi.waitFor(() => expect(three.dispatcher.wants("router")).toBe(true), { timeout: 10_000 });
  three.dispatcher.emit(online("c"));
  await vi.waitFor(() => expect(told()).toEqual(["router c of three"]));
  replicas.set({ id: "one", isLive: false });
  await vi.waitFor(() => expect(three.dispatcher.wants("router")).toBe(false), { timeout: 10_000 });
  replicas.set({ id: "one", isLive: true });
  await vi.waitFor(() => expect(three.dispatcher.wants("router")).toBe(true), { timeout: 10_000 });
});

it("a count that every controller makes for itself reaches streams once, and files at the leader alone", async () => {
  const body: EventBody = { namespace: "entityCount", counts: {}, error: "" };
  const subscription = readSubscription("entityCount", { interval: "1s" });
  const [file, streamed] = [collector(), collector()];
  await one.events.want(["entityCount"]);
  one.dispatcher.subscribe(file, [subscription]);
  one.dispatcher.subscribe(streamed, [subscription], "network");
  const { intervalMs = 0 } = subscription;
  for (const isTeller of [true, false]) one.dispatcher.emitPeriodic(body, intervalMs, isTeller);
  two.dispatcher.emitPeriodic(body, intervalMs, true);
  // What comes after it has come, too: so the other one's count does not.
  const { told } = await stream(one, "router");
  two.dispatcher.emit(online("b"));
  await vi.waitFor(() => expect(told()).toHaveLength(1));
  expect([file.events.length, streamed.events.length]).toEqual([1, 2]);
});
