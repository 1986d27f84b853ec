import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  type Message,
  RouterCapability,
} from "@sallyport/wire";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, describe, expect, test } from "vitest";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, TestFabric } from "../testing/test-fabric.ts";

let net: TestFabric;
afterEach(() => net.stop());

type Request = MessageInitShape<typeof edgeCtrlPb.SubscribeToDataModelRequestSchema>;

function subscribe(router: ScriptedRouter, request: Request = {}): void {
  const body = encodeControl(edgeCtrlPb.SubscribeToDataModelRequestSchema, {
    subscriptionDurationSeconds: 300,
    ...request,
  });
  router.send(EdgeCtrlType.SubscribeToDataModel, body);
}

const stateOf = async (router: ScriptedRouter) => (await router.next(EdgeCtrlType.DataState)).body.toString();
const changeOf = async (router: ScriptedRouter) => (await router.next(EdgeCtrlType.DataStateChangeSet)).body.toString();

describe("a router that subscribes to the data model", () => {
  test("gets the whole state when it has none, and every change after it", async () => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    subscribe(router);
    expect(await stateOf(router)).toBe("state timeline");
    net.model.dataModel.change("two");
    net.model.dataModel.change("three");
    expect(await changeOf(router)).toBe("two");
    expect(await changeOf(router)).toBe("three");
  });

  test("gets what it lacks when it comes back, and nothing when it lacks nothing", async () => {
    net = await TestFabric.start();
    for (const text of ["two", "three"]) net.model.dataModel.change(text);
    const [behind, level] = [await net.connect("r1"), await net.connect("r2")];
    subscribe(behind, { currentIndex: 2n, timelineId: "timeline" });
    subscribe(level, { currentIndex: 3n, timelineId: "timeline" });
    expect(await changeOf(behind)).toBe("three");
    net.model.dataModel.change("four");
    expect(await changeOf(level)).toBe("four");
    for (const router of [behind, level]) expect(router.pending(EdgeCtrlType.DataState)).toEqual([]);
  });

  test("gets a large state in parts, then what changed meanwhile; without the last part it gets everything again", async () => {
    net = await TestFabric.start();
    const { dataModel } = net.model;
    for (const text of ["two", "three"]) dataModel.change(text);
    dataModel.rest = Array.from({ length: 40 }, (_, n) => Buffer.alloc(256 * 1024, n));
    const router = await net.connect("r1");
    subscribe(router);
    await stateOf(router);
    dataModel.change("four");
    for (const part of dataModel.rest) {
      expect((await router.next(EdgeCtrlType.DataStateChangeSet)).body.equals(part)).toBe(true);
    }
    expect(await changeOf(router)).toBe("four");
    const complete = await net.connect("r2");
    subscribe(complete, { currentIndex: 3n, timelineId: "timeline/parts" });
    expect(await changeOf(complete)).toBe("four");
    const incomplete = await net.connect("r3");
    subscribe(incomplete, { currentIndex: 2n, timelineId: "timeline/parts" });
    await stateOf(incomplete);
  });

  test.each([
    ["is of another timeline", { currentIndex: 3n, timelineId: "older" }],
    ["lies before the changes that are kept", { currentIndex: 1n, timelineId: "timeline" }],
  ])("gets the whole state when what it has %s", async (_, request) => {
    net = await TestFabric.start();
    for (const text of ["two", "three"]) net.model.dataModel.change(text);
    net.model.dataModel.keptFrom = 2n;
    const router = await net.connect("r1");
    subscribe(router, request);
    expect(await stateOf(router)).toBe("state timeline");
    expect(router.pending(EdgeCtrlType.DataStateChangeSet)).toEqual([]);
  });

  test("gets a state of its own when it is ahead of us: it would ignore lower indices of the same timeline", async () => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    subscribe(router, { currentIndex: 2n ** 63n, timelineId: "timeline" });
    expect(await stateOf(router)).toBe("state timeline/r1");
    net.model.dataModel.change("two");
    expect(await changeOf(router)).toBe("two");
  });

  test("gets the whole state when the network begins a new life, whatever index it has of the former one", async () => {
    net = await TestFabric.start();
    const { dataModel } = net.model;
    for (const text of ["two", "three"]) dataModel.change(text);
    const level = await net.connect("r1");
    const behind = await net.connect("r2");
    subscribe(level, { currentIndex: 3n, timelineId: "timeline" });
    subscribe(behind, {});
    await stateOf(behind);
    await level.roundTrip();
    dataModel.timeline = "new life";
    dataModel.index = 2n;
    dataModel.change("three again");
    for (const router of [level, behind]) expect(await stateOf(router)).toBe("state new life");
    dataModel.change("four");
    for (const router of [level, behind]) expect(await changeOf(router)).toBe("four");
  });

  test("gets nothing more when it does not renew, and the memory is given back; a system clock that jumps ends nothing", async () => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    // Less than the shortest time there is.
    subscribe(router, { subscriptionDurationSeconds: 1 });
    await stateOf(router);
    const start = performance.now();
    const jumped = Date.now() + 86_400_000;
    subscribe(router, { renew: true, subscriptionDurationSeconds: 4_000_000_000 });
    await router.roundTrip();
    // OpenZiti routers renew up to 30 s after the end: until then nothing is held back.
    net.fabric.tick(jumped, start + 360_000 + 44_000);
    net.model.dataModel.change("late");
    expect(await changeOf(router)).toBe("late");
    expect(net.model.dataModel.users).toBe(1);
    net.fabric.tick(Date.now(), performance.now() + 360_000 + 46_000);
    expect(net.model.dataModel.users).toBe(0);
    net.model.dataModel.change("two");
    await router.roundTrip();
    expect(router.pending(EdgeCtrlType.DataStateChangeSet)).toEqual([]);
  });

  test("cannot have the whole state as often as it likes", async () => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    subscribe(router);
    await stateOf(router);
    for (let n = 0; n < 20; n++) subscribe(router);
    await router.roundTrip();
    net.fabric.tick(Date.now(), performance.now());
    await router.roundTrip();
    expect(router.pending(EdgeCtrlType.DataState)).toEqual([]);
  });

  test("hears of the index now and then, when it has grown", async () => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    subscribe(router);
    await stateOf(router);
    net.fabric.tick(Date.now(), performance.now() + 31_000);
    net.model.dataModel.change("two");
    net.fabric.tick(Date.now(), performance.now() + 62_000);
    const index = await router.next(EdgeCtrlType.CurrentIndex);
    expect(index.headers.getU64(EdgeCtrlHeader.DataModelIndex)).toBe(2n);
    expect(router.pending(EdgeCtrlType.CurrentIndex)).toEqual([]);
  });

  test("is forgotten with its channel, also while the model is loaded; a second subscription counts once", async () => {
    net = await TestFabric.start();
    const loading = Promise.withResolvers<void>();
    net.model.dataModel.loading = loading.promise;
    const router = await net.connect("r1");
    subscribe(router);
    subscribe(router);
    await router.roundTrip();
    expect(net.model.dataModel.users).toBe(1);
    router.close();
    await eventually(() => expect(net.model.dataModel.users).toBe(0));
    loading.resolve();
  });

  test("is refused when it only forwards", async () => {
    net = await TestFabric.start();
    await net.enroll("t1", { kind: "transit" });
    const router = await net.connect("t1");
    subscribe(router);
    await router.roundTrip();
    expect(net.model.dataModel.users).toBe(0);
    expect(router.pending(EdgeCtrlType.DataState)).toEqual([]);
  });
});

describe("a router of OpenZiti 2.x that subscribes", () => {
  const idOf = (message: Message) => message.headers.getString(EdgeCtrlHeader.SubscriptionId);
  const setOf = (message: Message) => decodeControl(edgeCtrlPb.DataState_ChangeSetSchema, message.body);

  test("has the id of its subscription on everything, and of another one after it has subscribed anew", async () => {
    net = await TestFabric.start();
    for (const text of ["two", "three"]) net.model.dataModel.change(text);
    const router = await net.connect("r1", { generation: 2, capabilities: [RouterCapability.MultiChannel] });
    subscribe(router, { subscriptionId: "one" });
    expect(idOf(await router.next(EdgeCtrlType.DataState))).toBe("one");
    net.model.dataModel.change("four");
    expect(idOf(await router.next(EdgeCtrlType.DataStateChangeSet))).toBe("one");
    // A renewal of another subscription is none.
    subscribe(router, { subscriptionId: "two", renew: true, currentIndex: 3n, timelineId: "timeline" });
    const again = await router.next(EdgeCtrlType.DataStateChangeSet);
    expect([idOf(again), again.body.toString()]).toEqual(["two", "four"]);
    subscribe(router, { subscriptionId: "two", renew: true });
    net.model.dataModel.change("five");
    const five = await router.next(EdgeCtrlType.DataStateChangeSet);
    expect([idOf(five), five.body.toString()]).toEqual(["two", "five"]);
    const old = await net.connect("r2");
    subscribe(old);
    expect((await old.next(EdgeCtrlType.DataState)).headers.has(EdgeCtrlHeader.SubscriptionId)).toBe(false);
    subscribe(router, { subscriptionId: "x".repeat(129) });
    net.model.dataModel.change("six");
    expect(idOf(await router.next(EdgeCtrlType.DataStateChangeSet))).toBe("two");
  });

  test("gets a state in one message, and a warning is logged when that is not possible", async () => {
    const log = new RecordingLogger();
    net = await TestFabric.start({}, log);
    const { dataModel } = net.model;
    const [old, whole, large] = [
      await net.connect("r1"),
      await net.connect("r2", { generation: 2 }),
      await net.connect("r3", { generation: 2 }),
    ];
    subscribe(old);
    await stateOf(old);
    subscribe(whole);
    await stateOf(whole);
    expect(dataModel.wanted.map(({ isWhole }) => isWhole)).toEqual([false, true]);
    const warnings = () => log.entries.filter(({ level, msg }) => level === "warn" && msg.includes("too large"));
    expect(warnings()).toEqual([]);
    dataModel.rest = [Buffer.from("part")];
    subscribe(large);
    expect(await changeOf(large)).toBe("part");
    expect(warnings()).toHaveLength(1);
  });

  test("is told of itself after each state and when that changes, with its configs before it", async () => {
    net = await TestFabric.start();
    const config = { id: "c1", typeId: "t1", name: "config", data: "{}" };
    net.model.configsOfRouters.set("r1", [config]);
    const router = await net.connect("r1", { generation: 2 });
    const old = await net.connect("r2", { generation: 2, capabilities: [RouterCapability.MultiChannel] });
    for (const each of [router, old]) subscribe(each, { subscriptionId: "s" });
    await stateOf(router);
    const first = await router.next(EdgeCtrlType.DataStateChangeSet);
    expect(idOf(first)).toBe("s");
    expect(setOf(first)).toMatchObject({ index: 1n, isSynthetic: true });
    expect(setOf(first).changes.map(({ model }) => model)).toMatchObject([
      { case: "config", value: { id: "c1", typeId: "t1", name: "config", dataJson: "{}" } },
      { case: "router", value: { id: "r1", name: "r1-name", configs: ["c1"], disabled: false } },
    ]);
    // Nothing that it is told of has changed.
    net.model.emit({ kind: "router-changed", routerId: "r1" });
    net.model.configsOfRouters.set("r2", [config]);
    net.model.emit({ kind: "router-changed", routerId: "r2" });
    await router.roundTrip();
    net.model.configsOfRouters.delete("r1");
    net.model.emit({ kind: "router-changed", routerId: "r1" });
    const second = await router.next(EdgeCtrlType.DataStateChangeSet);
    expect(setOf(second).changes.map(({ model }) => model)).toMatchObject([{ case: "router", value: { configs: [] } }]);
    await stateOf(old);
    await old.roundTrip();
    expect(old.pending(EdgeCtrlType.DataStateChangeSet)).toEqual([]);
  });
});

test("a validation hands on what the router found different", async () => {
  net = await TestFabric.start();
  const router = await net.connect("r1");
  const answer = net.fabric.validateDataModel("r1", true);
  const request = await router.next(EdgeCtrlType.ValidateDataStateRequest);
  expect(request.body.toString()).toBe("validate true");
  const diff = { entityType: "identity", entityId: "i", diffType: "sub", detail: "name" };
  const body = encodeControl(edgeCtrlPb.RouterDataModelValidateResponseSchema, {
    origEntityCounts: { identity: 2 },
    copyEntityCounts: { identity: 1 },
    diffs: [diff],
  });
  router.channel.reply(request, { contentType: EdgeCtrlType.ValidateDataStateResponse, body });
  expect(await answer).toEqual({ expectedCounts: { identity: 2 }, actualCounts: { identity: 1 }, differences: [diff] });
  expect(await net.fabric.validateDataModel("absent")).toBeUndefined();
  expect(net.model.dataModel.users).toBe(0);
});

test("a router that keeps what it is told of itself is compared with that, too", async () => {
  net = await TestFabric.start();
  const { dataModel } = net.model;
  dataModel.validationRequest = async () =>
    Buffer.from(
      encodeControl(edgeCtrlPb.RouterDataModelValidateRequestSchema, {
        state: { endIndex: 7n, events: [{}] },
        fix: true,
      }),
    );
  for (const [id, generation] of [["r1", 1] as const, ["r2", 2] as const]) {
    const router = await net.connect(id, { generation });
    const answer = net.fabric.validateDataModel(id, true);
    const request = await router.next(EdgeCtrlType.ValidateDataStateRequest);
    const { state, fix } = decodeControl(edgeCtrlPb.RouterDataModelValidateRequestSchema, request.body);
    expect({ fix, endIndex: state?.endIndex }).toEqual({ fix: true, endIndex: 7n });
    const kinds = state?.events.map(({ model }) => model.case);
    expect(kinds).toEqual(generation === 1 ? [undefined] : [undefined, "router"]);
    router.channel.reply(request, { contentType: EdgeCtrlType.ValidateDataStateResponse });
    await answer;
  }
});

test("a tunneler without sessions hosts; what a change of policy may allow later is answered as busy", async () => {
  net = await TestFabric.start();
  net.model.addService("svc");
  const router = await net.connect("r1");
  const host = async (serviceId: string, cost = 0) => {
    const body = encodeControl(edgeCtrlPb.CreateTunnelTerminatorV2RequestSchema, {
      ...{ serviceId, address: "tt", cost, startTime: 7n },
    });
    const answer = await router.request({ contentType: EdgeCtrlType.CreateTunnelTerminatorV2Request, body });
    expect(answer.contentType).toBe(EdgeCtrlType.CreateTunnelTerminatorV2Response);
    const { terminatorId, startTime, result } = decodeControl(
      edgeCtrlPb.CreateTunnelTerminatorV2ResponseSchema,
      answer.body,
    );
    expect({ terminatorId, startTime }).toEqual({ terminatorId: "tt", startTime: 7n });
    return result;
  };
  const { CreateTerminatorResult } = edgeCtrlPb;
  expect(await host("svc")).toBe(CreateTerminatorResult.FailedBusy);
  net.model.tunnelSession = { id: "a", token: "t", identityId: "r1" } as never;
  expect(await host("absent")).toBe(CreateTerminatorResult.FailedBusy);
  expect(await host("svc", 70_000)).toBe(CreateTerminatorResult.FailedOther);
  expect(await host("svc")).toBe(CreateTerminatorResult.Success);
  expect(await host("svc")).toBe(CreateTerminatorResult.Success);
  expect(net.model.terminators.get("tt")).toMatchObject({ binding: "tunnel", hostId: "r1", serviceId: "svc" });
  net.model.addTerminator("other", "svc", "r2");
  const body = encodeControl(edgeCtrlPb.CreateTunnelTerminatorV2RequestSchema, { serviceId: "svc", address: "other" });
  const answer = await router.request({ contentType: EdgeCtrlType.CreateTunnelTerminatorV2Request, body });
  const { result } = decodeControl(edgeCtrlPb.CreateTunnelTerminatorV2ResponseSchema, answer.body);
  expect(result).toBe(CreateTerminatorResult.FailedIdConflict);
});
