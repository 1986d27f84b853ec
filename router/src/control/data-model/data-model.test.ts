import {
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ScriptedController, testControllers } from "../../testing/scripted-controller.ts";
import type { Controllers } from "../controllers/controllers.ts";
import { DataModelSubscription } from "./data-model-subscription.ts";
import { compareModels, NetworkModel } from "./network-model.ts";

type EventInit = Parameters<typeof encodeControl<typeof edgeCtrlPb.DataState_EventSchema>>[1];

const { DataState_Action: Action, DataState_PolicyType: PolicyType } = edgeCtrlPb;
const { DataState_RelatedEntityType: Related } = edgeCtrlPb;

const put = (model: EventInit["model"], action: edgeCtrlPb.DataState_Action = Action.Create): EventInit =>
  ({ action, model }) as EventInit;
const members = (
  policyId: string,
  relatedEntityType: edgeCtrlPb.DataState_RelatedEntityType,
  relatedEntityIds: string[],
  add = true,
): EventInit => put({ case: "servicePolicyChange", value: { policyId, relatedEntityType, relatedEntityIds, add } });
const policy = (id: string, policyType: edgeCtrlPb.DataState_PolicyType): EventInit =>
  put({ case: "servicePolicy", value: { id, name: id, policyType } });
const service = (id: string, configs: string[] = [], encryptionRequired = true): EventInit =>
  put({ case: "service", value: { id, name: `name of ${id}`, encryptionRequired, configs } });
const identity = (id: string, more: object = {}, action: edgeCtrlPb.DataState_Action = Action.Create): EventInit =>
  put({ case: "identity", value: { id, name: `name of ${id}`, ...more } }, action);

/** A network in which router `r1` may dial `s1` and host `s2`. */
const NETWORK: EventInit[] = [
  put({ case: "configType", value: { id: "t1", name: "host.v1" } }),
  put({ case: "config", value: { id: "c1", typeId: "t1", name: "c1", dataJson: '{"port":1}' } }),
  put({ case: "config", value: { id: "c2", typeId: "t1", name: "c2", dataJson: '{"port":2}' } }),
  identity("r1", { appDataJson: Buffer.from('{"site":"x"}'), defaultHostingCost: 9, defaultHostingPrecedence: 1 }),
  identity("somebody"),
  service("s1", ["c1"]),
  service("s2", ["c1"], false),
  service("s3"),
  policy("dial", PolicyType.DialPolicy),
  members("dial", Related.RelatedService, ["s1"]),
  members("dial", Related.RelatedIdentity, ["somebody", "r1"]),
  policy("bind", PolicyType.BindPolicy),
  members("bind", Related.RelatedService, ["s2"]),
  members("bind", Related.RelatedIdentity, ["r1"]),
];

const decoded = (events: EventInit[], index: bigint, timelineId = "t") =>
  decodeControl(
    edgeCtrlPb.DataStateSchema,
    encodeControl(edgeCtrlPb.DataStateSchema, { events, endIndex: index, timelineId } as never),
  );
const changes = (events: EventInit[], index: bigint, isSynthetic = false) =>
  decodeControl(
    edgeCtrlPb.DataState_ChangeSetSchema,
    encodeControl(edgeCtrlPb.DataState_ChangeSetSchema, { changes: events, index, isSynthetic } as never),
  );

describe("what a router keeps of the network", () => {
  let model: NetworkModel;

  beforeEach(() => {
    model = new NetworkModel("r1");
    model.replace(decoded(NETWORK, 5n));
  });

  it("is its own identity with what policies give it", () => {
    const own = model.own();
    expect(own).toMatchObject({ id: "r1", appData: { site: "x" }, defaultCost: 9, defaultPrecedence: 1 });
    expect([...(own?.services ?? [])]).toEqual([
      ["s1", expect.objectContaining({ name: "name of s1", canDial: true, canBind: false, isEncrypted: true })],
      ["s2", expect.objectContaining({ canDial: false, canBind: true, isEncrypted: false })],
    ]);
    expect(own?.services.get("s1")?.configs).toEqual(new Map([["host.v1", { port: 1 }]]));
  });

  it("has configs of the identity's own before those of the service, and its costs", () => {
    const more = {
      serviceConfigs: { s1: { configs: { t1: "c2" } } },
      serviceHostingCosts: { s2: 70 },
      serviceHostingPrecedences: { s2: 2 },
    };
    model.change(changes([identity("r1", more, Action.Update)], 6n));
    expect(model.own()?.services.get("s1")?.configs.get("host.v1")).toEqual({ port: 2 });
    expect(model.own()?.services.get("s2")).toMatchObject({ cost: 70, precedence: 2 });
  });

  it("follows members that come and go, deletions, and policies that are written again", () => {
    model.change(changes([members("dial", Related.RelatedService, ["s3"])], 6n));
    expect([...(model.own()?.services.keys() ?? [])]).toEqual(["s1", "s3", "s2"]);
    model.change(changes([put(policy("dial", PolicyType.DialPolicy).model, Action.Update)], 7n));
    expect(model.own()?.services.has("s3")).toBe(true);
    model.change(changes([members("dial", Related.RelatedIdentity, ["r1"], false)], 8n));
    expect([...(model.own()?.services.keys() ?? [])]).toEqual(["s2"]);
    model.change(changes([put({ case: "service", value: { id: "s2" } }, Action.Delete)], 9n));
    expect(model.own()?.services.size).toBe(0);
    model.change(changes([identity("r1", {}, Action.Delete)], 10n));
    expect(model.own()).toBeUndefined();
  });

  it("gives nothing to a disabled identity, and takes it up again", () => {
    model.change(changes([identity("r1", { disabled: true }, Action.Update)], 6n));
    expect(model.own()).toBeUndefined();
    model.change(changes([identity("r1", {}, Action.Update)], 7n));
    expect(model.own()?.services.size).toBe(2);
  });

  it("takes a policy that asks for posture for none: a router reports no posture", () => {
    model.change(changes([members("dial", Related.RelatedPostureCheck, ["p1"])], 6n));
    expect([...(model.own()?.services.keys() ?? [])]).toEqual(["s2"]);
    model.change(changes([members("dial", Related.RelatedPostureCheck, ["p1"], false)], 7n));
    expect(model.own()?.services.has("s1")).toBe(true);
  });

  it("ignores what it knows already, and takes synthetic changes whatever their index", () => {
    expect(model.change(changes([identity("r1", {}, Action.Delete)], 5n))).toBe(false);
    expect(model.own()).toBeDefined();
    expect(model.change(changes([service("s1", [])], 1n, true))).toBe(true);
    expect(model.own()?.services.get("s1")?.configs.size).toBe(0);
    expect(model.index).toBe(5n);
  });

  it("is incomplete until the last part of a large state is there", () => {
    model.replace(decoded(NETWORK, 6n, "t/parts/7"));
    expect(model.isComplete).toBe(false);
    model.change(changes([], 0n, true));
    expect(model.isComplete).toBe(false);
    model.change(changes([], 7n));
    expect(model.isComplete).toBe(true);
  });

  it("survives members of unknown policies, unknown config types and data that is no JSON", () => {
    model.change(
      changes(
        [
          members("unheard-of", Related.RelatedService, ["s1"]),
          put({ case: "config", value: { id: "c1", typeId: "unheard-of", name: "c1", dataJson: "{" } }),
          identity("r1", { appDataJson: Buffer.from("no json") }, Action.Update),
        ],
        6n,
      ),
    );
    expect(model.own()).toMatchObject({ appData: {} });
    expect(model.own()?.services.get("s1")?.configs.size).toBe(0);
  });

  it("says how it differs from what it should be", () => {
    const wanted = new NetworkModel("r1");
    wanted.replace(decoded(NETWORK, 5n));
    expect(compareModels(wanted, model)).toMatchObject({ diffs: [], copyEntityCounts: { service: 3, identity: 1 } });
    model.change(
      changes(
        [
          put({ case: "service", value: { id: "s3" } }, Action.Delete),
          service("s4"),
          members("bind", Related.RelatedIdentity, ["r1"], false),
        ],
        6n,
      ),
    );
    expect(compareModels(wanted, model).diffs.map(({ entityId, diffType }) => [entityId, diffType])).toEqual([
      ["s3", "missing"],
      ["s4", "extra"],
      ["bind", "different"],
    ]);
  });
});

describe("the subscription", () => {
  let authority: TestAuthority;
  let first: ScriptedController;
  let controllers: Controllers;
  let subscription: DataModelSubscription;
  let told: NetworkModel[];
  const others: ScriptedController[] = [];

  const subscribed = async (controller: ScriptedController) =>
    decodeControl(
      edgeCtrlPb.SubscribeToDataModelRequestSchema,
      (await controller.next(EdgeCtrlType.SubscribeToDataModel)).body,
    );
  const sendState = async (
    controller: ScriptedController,
    index: bigint,
    events: EventInit[] = NETWORK,
    timelineId = "t",
  ) => {
    const body = encodeControl(edgeCtrlPb.DataStateSchema, { events, endIndex: index, timelineId } as never);
    (await controller.channel()).send({ contentType: EdgeCtrlType.DataState, body });
  };
  const until = async (condition: () => boolean): Promise<void> => {
    while (!condition()) await new Promise(setImmediate);
  };
  const start = (times: { subscriptionMs?: number; catchUpMs?: number } = {}) => {
    subscription = new DataModelSubscription({
      controllers,
      routerId: "r1",
      onChange: (model) => told.push(model),
      log: silentLogger,
      times,
    });
  };

  beforeEach(async () => {
    told = [];
    authority = await TestAuthority.create();
    first = await ScriptedController.start(await authority.identity("ctrl1"), "ctrl1");
    first.capabilities = 0x1e;
    controllers = testControllers(await authority.identity("r1"));
  });

  afterEach(async () => {
    subscription.close();
    controllers.stop();
    await first.close();
    for (const other of others.splice(0)) await other.close();
  });

  it("asks for everything at first, renews, and goes on from its index after a reconnect", async () => {
    start({ subscriptionMs: 1500 });
    controllers.setEndpoints([first.address]);
    expect(await subscribed(first)).toMatchObject({ currentIndex: 0n, timelineId: "", renew: false });
    await sendState(first, 5n);
    await until(() => told.length === 1);
    let renewal = await subscribed(first);
    // Those from before the state was there.
    while (renewal.currentIndex === 0n) renewal = await subscribed(first);
    expect(renewal).toMatchObject({ currentIndex: 5n, renew: true, subscriptionDurationSeconds: 2 });
    (await first.channel()).close();
    await first.connections(2);
    for (;;) {
      const request = await subscribed(first);
      if (request.renew) continue;
      expect(request).toMatchObject({ currentIndex: 5n, timelineId: "t" });
      return;
    }
  });

  it("tells of changes that arrive together once, and of nothing new not at all", async () => {
    start();
    controllers.setEndpoints([first.address]);
    await subscribed(first);
    await sendState(first, 5n);
    const channel = await first.channel();
    const change = (index: bigint) => {
      const body = encodeControl(edgeCtrlPb.DataState_ChangeSetSchema, {
        changes: [service(`s${index}`)],
        index,
      } as never);
      channel.send({ contentType: EdgeCtrlType.DataStateChangeSet, body });
    };
    change(6n);
    change(9n);
    change(9n);
    await until(() => subscription.model.index === 9n && told.length > 0);
    const count = told.length;
    expect(count).toBeLessThanOrEqual(2);
    change(8n);
    await channel.request({ contentType: 1 });
    expect(told.length).toBe(count);
  });

  it("takes the whole state of a network that was restored, whatever its index, and goes on from that", async () => {
    start();
    controllers.setEndpoints([first.address]);
    await subscribed(first);
    await sendState(first, 5n);
    await until(() => told.length === 1);
    expect(subscription.model.own()?.services.has("s1")).toBe(true);
    const restored = NETWORK.filter((event) => event.model?.case !== "servicePolicyChange");
    await sendState(first, 1n, restored, "restored");
    await until(() => told.length === 2);
    expect([...(subscription.model.own()?.services.keys() ?? [])]).toEqual([]);
    expect([subscription.model.index, subscription.model.timeline]).toEqual([1n, "restored"]);
    const body = encodeControl(edgeCtrlPb.DataState_ChangeSetSchema, {
      changes: [members("bind", Related.RelatedService, ["s2"]), members("bind", Related.RelatedIdentity, ["r1"])],
      index: 2n,
    } as never);
    (await first.channel()).send({ contentType: EdgeCtrlType.DataStateChangeSet, body });
    await until(() => told.length === 3);
    expect([...(subscription.model.own()?.services.keys() ?? [])]).toEqual(["s2"]);
  });

  it("asks again when the controller is at an index whose changes did not come", async () => {
    start({ catchUpMs: 20 });
    controllers.setEndpoints([first.address]);
    await subscribed(first);
    await sendState(first, 5n);
    const channel = await first.channel();
    const named = (index: bigint) =>
      channel.send({
        contentType: EdgeCtrlType.CurrentIndex,
        headers: new Headers().setU64(EdgeCtrlHeader.DataModelIndex, index),
      });
    named(5n);
    named(7n);
    expect(await subscribed(first)).toMatchObject({ currentIndex: 5n, renew: false });
  });

  it("is with one of several controllers, the one that has the model, and moves on when that is lost", async () => {
    const old = await ScriptedController.start(await authority.identity("old"), "old");
    const second = await ScriptedController.start(await authority.identity("ctrl2"), "ctrl2");
    second.capabilities = 0x1e;
    others.push(old, second);
    start();
    controllers.setEndpoints([old.address]);
    await old.channel();
    expect(subscription.controller).toBeUndefined();
    controllers.setEndpoints([old.address, first.address]);
    await subscribed(first);
    await sendState(first, 5n);
    await until(() => told.length === 1);
    controllers.setEndpoints([old.address, first.address, second.address]);
    await second.channel();
    await until(() => controllers.all().length === 3);
    // Not subscribed there: what it sends is not looked at.
    await sendState(second, 50n);
    await (await second.channel()).request({ contentType: 1 });
    expect(subscription.model.index).toBe(5n);
    controllers.setEndpoints([old.address, second.address]);
    expect(await subscribed(second)).toMatchObject({ currentIndex: 5n, timelineId: "t" });
    expect(old.received.some(({ contentType }) => contentType === EdgeCtrlType.SubscribeToDataModel)).toBe(false);
  });

  it("compares its model with one that the controller sends, and takes it over when asked to", async () => {
    start();
    controllers.setEndpoints([first.address]);
    await subscribed(first);
    await sendState(first, 5n);
    await until(() => told.length === 1);
    const validate = async (fix: boolean) => {
      const state = { events: [...NETWORK, service("s9")], endIndex: 5n, timelineId: "t" };
      const body = encodeControl(edgeCtrlPb.RouterDataModelValidateRequestSchema, { state, fix } as never);
      const answer = await (await first.channel()).request({
        contentType: EdgeCtrlType.ValidateDataStateRequest,
        body,
      });
      expect(answer.contentType).toBe(EdgeCtrlType.ValidateDataStateResponse);
      return decodeControl(edgeCtrlPb.RouterDataModelValidateResponseSchema, answer.body);
    };
    expect((await validate(false)).diffs).toMatchObject([{ entityId: "s9", diffType: "missing" }]);
    expect((await validate(true)).diffs).toHaveLength(1);
    expect((await validate(false)).diffs).toEqual([]);
    await until(() => told.length === 2);
  });
});
