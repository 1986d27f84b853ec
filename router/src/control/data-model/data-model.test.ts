import {
  ControllerCapability,
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
import { ChangeSetReader, StateReader } from "./event-reader.ts";
import { compareModels, encodeComparison } from "./model-comparison.ts";
import { applyChanges, MIN_REVOCATION_HOLD_MS, modelOf, NetworkModel } from "./network-model.ts";

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

const revocation = (id: string, untilMs: number, action: edgeCtrlPb.DataState_Action = Action.Create): EventInit => {
  const expiresAt = { seconds: BigInt(Math.floor(untilMs / 1000)), nanos: 0 };
  return put({ case: "revocation", value: { id, type: "JTI", expiresAt } } as never, action);
};

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

const stateOf = (events: EventInit[], index: bigint, timelineId = "t") =>
  modelOf(encodeControl(edgeCtrlPb.DataStateSchema, { events, endIndex: index, timelineId } as never));
const setOf = (events: EventInit[], index: bigint, more: { isSynthetic?: boolean; previousIndex?: bigint } = {}) =>
  new ChangeSetReader(
    encodeControl(edgeCtrlPb.DataState_ChangeSetSchema, { changes: events, index, ...more } as never),
  );

describe("what a router keeps of the network", () => {
  let model: NetworkModel;

  const change = (events: EventInit[], index: bigint, more = {}) => applyChanges(model, setOf(events, index, more));
  const own = () => model.tunnelIdentity("r1");

  beforeEach(async () => {
    model = await stateOf(NETWORK, 5n);
    model.takeTouched();
  });

  it("is its own identity with what policies give it", async () => {
    const identity = own();
    expect(identity).toMatchObject({ id: "r1", appData: { site: "x" }, defaultCost: 9, defaultPrecedence: 1 });
    expect([...(identity?.services ?? [])]).toEqual([
      ["s1", expect.objectContaining({ name: "name of s1", canDial: true, canBind: false, isEncrypted: true })],
      ["s2", expect.objectContaining({ canDial: false, canBind: true, isEncrypted: false })],
    ]);
    expect(identity?.services.get("s1")?.configs).toEqual(new Map([["host.v1", { port: 1 }]]));
  });

  it("has configs of the identity's own before those of the service, and its costs", async () => {
    const more = {
      serviceConfigs: { s1: { configs: { t1: "c2" } } },
      serviceHostingCosts: { s2: 70 },
      serviceHostingPrecedences: { s2: 2 },
    };
    await change([identity("r1", more, Action.Update)], 6n);
    expect(own()?.services.get("s1")?.configs.get("host.v1")).toEqual({ port: 2 });
    expect(own()?.services.get("s2")).toMatchObject({ cost: 70, precedence: 2 });
  });

  it("follows members that come and go, deletions, and policies that are written again", async () => {
    await change([members("dial", Related.RelatedService, ["s3"])], 6n);
    expect([...(own()?.services.keys() ?? [])]).toEqual(["s1", "s3", "s2"]);
    await change([put(policy("dial", PolicyType.DialPolicy).model, Action.Update)], 7n);
    expect(own()?.services.has("s3")).toBe(true);
    await change([members("dial", Related.RelatedIdentity, ["r1"], false)], 8n);
    expect([...(own()?.services.keys() ?? [])]).toEqual(["s2"]);
    await change([put({ case: "service", value: { id: "s2" } }, Action.Delete)], 9n);
    expect(own()?.services.size).toBe(0);
    await change([identity("r1", {}, Action.Delete)], 10n);
    expect(own()).toBeUndefined();
  });

  it("gives nothing to a disabled identity, and takes it up again", async () => {
    await change([identity("r1", { disabled: true }, Action.Update)], 6n);
    expect(own()).toBeUndefined();
    await change([identity("r1", {}, Action.Update)], 7n);
    expect(own()?.services.size).toBe(2);
  });

  it("takes a policy that asks for posture for none: a router reports no posture", async () => {
    await change([members("dial", Related.RelatedPostureCheck, ["p1"])], 6n);
    expect([...(own()?.services.keys() ?? [])]).toEqual(["s2"]);
    await change([members("dial", Related.RelatedPostureCheck, ["p1"], false)], 7n);
    expect(own()?.services.has("s1")).toBe(true);
  });

  it("ignores what it knows already, and takes synthetic changes whatever their index", async () => {
    expect(await change([identity("r1", {}, Action.Delete)], 5n)).toBe("known");
    expect(own()).toBeDefined();
    expect(await change([service("s1", [])], 1n, { isSynthetic: true })).toBe("taken");
    expect(own()?.services.get("s1")?.configs.size).toBe(0);
    expect(model.index).toBe(5n);
  });

  it("is incomplete until the last part of a large state is there", async () => {
    model = await stateOf(NETWORK, 6n, "t/parts/7");
    expect(model.isComplete).toBe(false);
    await change([], 0n, { isSynthetic: true });
    expect(model.isComplete).toBe(false);
    await change([], 7n);
    expect(model.isComplete).toBe(true);
  });

  it("says whom a change concerns", async () => {
    const touchedBy = async (events: EventInit[], index: bigint) => {
      await change(events, index);
      const { identities, sessions, haveKeysChanged } = model.takeTouched();
      return [identities === "all" ? "all" : [...identities].sort(), [...sessions], haveKeysChanged];
    };
    expect(await touchedBy([members("bind", Related.RelatedIdentity, ["somebody"])], 6n)).toEqual([
      ["somebody"],
      [],
      false,
    ]);
    expect(await touchedBy([service("s1")], 7n)).toEqual([["r1", "somebody"], [], false]);
    expect(await touchedBy([service("s3")], 8n)).toEqual([[], [], false]);
    const check = put({ case: "postureCheck", value: { id: "p1", name: "p1" } } as never);
    expect(await touchedBy([members("bind", Related.RelatedPostureCheck, ["p1"])], 9n)).toEqual([
      ["r1", "somebody"],
      [],
      false,
    ]);
    expect(await touchedBy([check], 10n)).toEqual([["r1", "somebody"], [], false]);
    expect(await touchedBy([put({ case: "publicKey", value: { kid: "k" } } as never)], 11n)).toEqual([[], [], true]);
    const revoked = (id: string, type: string) => put({ case: "revocation", value: { id, type } } as never);
    expect(await touchedBy([revoked("a", "API_SESSION")], 12n)).toEqual([[], ["a"], false]);
    expect(await touchedBy([revoked("r1", "IDENTITY")], 13n)).toEqual([["r1"], [], false]);
    expect(await touchedBy([revoked("j", "JTI")], 14n)).toEqual(["all", [], false]);
    expect(await touchedBy([put({ case: "service", value: { id: "s1" } }, Action.Delete)], 15n)).toEqual([
      ["r1", "somebody"],
      [],
      false,
    ]);
  });

  it("forgets what a deleted entity was in, so that one with its place has nothing of it", async () => {
    const gone = put({ case: "identity", value: { id: "somebody" } }, Action.Delete);
    await change(
      [gone, identity("new"), put({ case: "service", value: { id: "s1" } }, Action.Delete), service("s9")],
      6n,
    );
    expect([...model.policiesOf("new")]).toEqual([]);
    expect([...(own()?.services.keys() ?? [])]).toEqual(["s2"]);
    await change([identity("somebody")], 7n);
    expect([...model.policiesOf("somebody")]).toEqual([]);
  });

  it("has a service by its present name only", async () => {
    await change([put({ case: "service", value: { id: "s1", name: "other" } }, Action.Update)], 6n);
    expect([model.serviceNamed("name of s1"), model.serviceNamed("other")?.id]).toEqual([undefined, "s1"]);
  });

  it("of 100,000 identities is taken without holding up the rest of the router", async () => {
    const ids = Array.from({ length: 100_000 }, (_, i) => `identity-${i}`);
    const everyone = [members("dial", Related.RelatedIdentity, ids), members("bind", Related.RelatedIdentity, ids)];
    const body = encodeControl(edgeCtrlPb.DataStateSchema, {
      events: [...ids.map((id) => identity(id)), ...NETWORK, ...everyone],
      endIndex: 5n,
      timelineId: "t",
    } as never);
    // By the processor's time: other programs of the machine may come in between.
    const used = () => Object.values(process.threadCpuUsage()).reduce((sum, each) => sum + each, 0);
    const turns: number[] = [];
    let since = used();
    let isDone = false;
    const turn = (): void => {
      const now = used();
      turns.push(now - since);
      since = now;
      if (!isDone) setImmediate(turn);
    };
    setImmediate(turn);
    const large = await modelOf(body);
    isDone = true;
    expect(large.identities.size).toBe(100_002);
    expect([...large.policiesOf("identity-99999")].map(({ id }) => id)).toEqual(["dial", "bind"]);
    // Slices of 8 ms, and what the garbage collector adds to one of them.
    const [longest, all] = [Math.max(...turns), turns.reduce((sum, each) => sum + each, 0)];
    expect(longest / all).toBeLessThan(0.25);
  });

  it("stops at least every thousand members of a policy, also on the way to what follows their list", () => {
    const ids = Array.from({ length: 10_000 }, (_, i) => `identity-${i}`);
    const events = [members("dial", Related.RelatedIdentity, ids)];
    const body = encodeControl(edgeCtrlPb.DataStateSchema, { events, endIndex: 5n, timelineId: "t" } as never);
    const stops = Map.groupBy(new StateReader(body).events(), ({ kind }) => kind);
    expect([stops.get("passed")?.length, stops.get("members")?.length]).toEqual([10, 10]);
  });

  it("sends what it says in parts that make one answer", async () => {
    const { diffs, ...counts } = await compareModels(await stateOf(NETWORK, 5n), new NetworkModel());
    const many = Array.from({ length: 2_500 }, (_, i) => ({ ...diffs[0]!, entityId: `${i}` }));
    const answer = decodeControl(
      edgeCtrlPb.RouterDataModelValidateResponseSchema,
      await encodeComparison({ ...counts, diffs: many }),
    );
    expect(answer).toMatchObject({ ...counts, diffs: many });
  });

  it("keeps a revocation until no token can meet it, whatever the controller forgets", async () => {
    await change([revocation("j", 1_000_000)], 6n);
    await change([revocation("j", 1_000_000, Action.Delete)], 7n);
    expect(model.revocations.get("j")).toEqual({ id: "j", type: "JTI", expiresAt: 1_000_000, issuedBefore: undefined });
    const later = performance.now() + MIN_REVOCATION_HOLD_MS;
    model.sweepRevocations(1_029_000, later);
    expect(model.revocations.size).toBe(1);
    model.sweepRevocations(1_030_000, later);
    expect(model.revocations.size).toBe(0);
  });

  it("keeps a revocation although the system clock jumps ahead, before it comes or after", async () => {
    const now = Date.now();
    const day = 86_400_000;
    await change([revocation("long", now + day), revocation("short", now - day)], 6n);
    const clock = now + 10 * day;
    const held = () => [...model.revocations.keys()];
    model.sweepRevocations(clock, performance.now());
    expect(held()).toEqual(["long", "short"]);
    model.sweepRevocations(clock, performance.now() + MIN_REVOCATION_HOLD_MS);
    expect(held()).toEqual(["long"]);
    model.sweepRevocations(clock, performance.now() + 2 * day);
    expect(held()).toEqual([]);
  });

  it("does not take changes before which others are missing", async () => {
    expect(await change([service("s8")], 9n, { previousIndex: 7n })).toBe("gap");
    expect([model.index, model.services.has("s8")]).toEqual([5n, false]);
    expect(await change([service("s8")], 9n, { previousIndex: 5n })).toBe("taken");
    expect(model.index).toBe(9n);
  });

  it("keeps the configs of a router as long as the router names them", async () => {
    const config = (id: string) => put({ case: "config", value: { id, typeId: "t", dataJson: "{}" } } as never);
    const router = (...configs: string[]) => put({ case: "router", value: { id: "r1", name: "r1", configs } } as never);
    const had = new Set(model.configs.keys());
    const more = () => [...model.configs.keys()].filter((id) => !had.has(id));
    await change([config("a"), config("b"), router("a", "b")], 6n);
    expect(more()).toEqual(["a", "b"]);
    await change([config("b"), router("b")], 7n);
    expect(more()).toEqual(["b"]);
    await change([{ ...router("b"), action: Action.Delete }], 8n);
    expect(more()).toEqual([]);
  });

  it("reads fields in any order, long lists, and passes over kinds of later versions", async () => {
    const ids = Array.from({ length: 2_500 }, (_, i) => `i${i}`);
    await change([...ids.map((id) => identity(id)), members("dial", Related.RelatedIdentity, ids)], 6n);
    expect(ids.every((id) => [...model.policiesOf(id)].length === 1)).toBe(true);
    const router = put({ case: "router", value: { id: "r1", name: "r1" } } as never);
    expect(await change([router], 7n)).toBe("taken");
    // Unknown fields of all wire types; the model before the action.
    const service = Buffer.from(encodeControl(edgeCtrlPb.DataState_ServiceSchema, { id: "s2" }));
    const event = Buffer.concat([Buffer.of(0x5a, service.length), service, Buffer.from("0802f80701", "hex")]);
    const set = Buffer.concat([
      Buffer.of(0x08, 8, 0x1a, event.length),
      event,
      Buffer.from("9d0601020304a10601020304050607089a0602ffff", "hex"),
    ]);
    expect(await applyChanges(model, new ChangeSetReader(set))).toBe("taken");
    expect(model.services.has("s2")).toBe(false);
  });

  it.each(["0a05", "0aff", "0a0382010a", "0b", "0affffffff7f"])("is no state: %s", async (hex) => {
    await expect(modelOf(Buffer.from(hex, "hex"))).rejects.toThrow();
  });

  it("survives members of unknown policies, unknown config types and data that is no JSON", async () => {
    await change(
      [
        members("unheard-of", Related.RelatedService, ["s1"]),
        put({ case: "config", value: { id: "c1", typeId: "unheard-of", name: "c1", dataJson: "{" } }),
        identity("r1", { appDataJson: Buffer.from("no json") }, Action.Update),
      ],
      6n,
    );
    expect(own()).toMatchObject({ appData: {} });
    expect(own()?.services.get("s1")?.configs.size).toBe(0);
  });

  it("says how it differs from what it should be", async () => {
    const wanted = await stateOf(NETWORK, 5n);
    expect(await compareModels(wanted, model)).toMatchObject({
      diffs: [],
      copyEntityCounts: { service: 3, identity: 2 },
    });
    await change(
      [
        put({ case: "service", value: { id: "s3" } }, Action.Delete),
        service("s4"),
        members("bind", Related.RelatedIdentity, ["r1"], false),
      ],
      6n,
    );
    expect((await compareModels(wanted, model)).diffs.map(({ entityId, diffType }) => [entityId, diffType])).toEqual([
      ["s3", "missing"],
      ["s4", "extra"],
      ["bind", "different"],
    ]);
    await change([members("bind", Related.RelatedIdentity, ["somebody"])], 7n);
    const [, , difference] = (await compareModels(wanted, model)).diffs;
    expect(difference?.detail).toBe('without the members ["r1"], and with ["somebody"] that were not expected');
  });

  it("does not differ by a revocation that has expired, which it keeps for longer than the controller", async () => {
    const wanted = await stateOf(NETWORK, 5n);
    await change([revocation("ended", Date.now() - 1_000), revocation("counts", Date.now() + 60_000)], 6n);
    const { diffs } = await compareModels(wanted, model);
    expect(diffs.map(({ entityId, diffType }) => [entityId, diffType])).toEqual([["counts", "extra"]]);
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
    subscription = new DataModelSubscription({ controllers, log: silentLogger, times });
    subscription.onChange((model) => told.push(model));
    subscription.follow();
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
    expect(subscription.model.tunnelIdentity("r1")?.services.has("s1")).toBe(true);
    let restarts = 0;
    subscription.onRestarted(() => restarts++);
    await sendState(first, 6n);
    await until(() => told.length === 2);
    expect(restarts).toBe(0);
    told.length = 1;
    const restored = NETWORK.filter((event) => event.model?.case !== "servicePolicyChange");
    await sendState(first, 1n, restored, "restored");
    await until(() => told.length === 2);
    expect(restarts).toBe(1);
    expect([...(subscription.model.tunnelIdentity("r1")?.services.keys() ?? [])]).toEqual([]);
    expect([subscription.model.index, subscription.model.timeline]).toEqual([1n, "restored"]);
    const body = encodeControl(edgeCtrlPb.DataState_ChangeSetSchema, {
      changes: [members("bind", Related.RelatedService, ["s2"]), members("bind", Related.RelatedIdentity, ["r1"])],
      index: 2n,
    } as never);
    (await first.channel()).send({ contentType: EdgeCtrlType.DataStateChangeSet, body });
    await until(() => told.length === 3);
    expect([...(subscription.model.tunnelIdentity("r1")?.services.keys() ?? [])]).toEqual(["s2"]);
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

  it("keeps the model in force until the last part of a new one is here", async () => {
    start();
    controllers.setEndpoints([first.address]);
    await subscribed(first);
    await sendState(first, 5n);
    await until(() => told.length === 1);
    const channel = await first.channel();
    const change = (events: EventInit[], fields: object) => {
      const body = encodeControl(edgeCtrlPb.DataState_ChangeSetSchema, { changes: events, ...fields } as never);
      channel.send({ contentType: EdgeCtrlType.DataStateChangeSet, body });
    };
    const inForce = () => [...(subscription.model.tunnelIdentity("r1")?.services.keys() ?? [])];
    await sendState(
      first,
      8n,
      NETWORK.filter((event) => event.model?.case !== "servicePolicyChange"),
      "t/parts/9",
    );
    change([members("dial", Related.RelatedService, ["s1"])], { isSynthetic: true, index: 9n });
    await channel.request({ contentType: 1 });
    expect([subscription.model.index, inForce(), told.length]).toEqual([5n, ["s1", "s2"], 1]);
    change([members("dial", Related.RelatedIdentity, ["r1"])], { index: 9n });
    await until(() => told.length === 2);
    expect([subscription.model.index, inForce()]).toEqual([9n, ["s1"]]);
  });

  it("takes nothing meant for another subscription, and asks when changes are missing", async () => {
    start();
    controllers.setEndpoints([first.address]);
    const { subscriptionId } = await subscribed(first);
    expect(subscriptionId).not.toBe("");
    await sendState(first, 5n);
    await until(() => told.length === 1);
    const channel = await first.channel();
    const change = (index: bigint, id: string, fields = {}) => {
      const body = encodeControl(edgeCtrlPb.DataState_ChangeSetSchema, {
        changes: [service("s8")],
        index,
        ...fields,
      } as never);
      const headers = new Headers().setString(EdgeCtrlHeader.SubscriptionId, id);
      channel.send({ contentType: EdgeCtrlType.DataStateChangeSet, headers, body });
    };
    change(50n, "another");
    change(9n, subscriptionId, { previousIndex: 8n });
    expect(await subscribed(first)).toMatchObject({ currentIndex: 5n, renew: false, subscriptionId });
    change(6n, subscriptionId, { previousIndex: 5n });
    await until(() => subscription.model.index === 6n);
  });

  it("reads what a controller can do where 2.x says it, before where others do", async () => {
    first.capabilities = 0;
    first.capabilitiesV2 = 0x1e;
    start();
    controllers.setEndpoints([first.address]);
    await subscribed(first);
    expect(subscription.controller?.has(ControllerCapability.RouterDataModel)).toBe(true);
  });

  it("takes the keys of controllers that it is not subscribed to, and nothing else of them", async () => {
    const second = await ScriptedController.start(await authority.identity("ctrl2"), "ctrl2");
    second.capabilities = 0x1e;
    others.push(second);
    start();
    controllers.setEndpoints([first.address]);
    await subscribed(first);
    await sendState(first, 5n);
    controllers.setEndpoints([first.address, second.address]);
    const key = put({ case: "publicKey", value: { kid: "k2" } } as never);
    const send = async (action: edgeCtrlPb.DataState_Action) => {
      const changes = [{ ...key, action }, service("s8")];
      const body = encodeControl(edgeCtrlPb.DataState_ChangeSetSchema, { changes, isSynthetic: true } as never);
      (await second.channel()).send({ contentType: EdgeCtrlType.DataStateChangeSet, body });
    };
    await send(Action.Create);
    await until(() => subscription.publicKey("k2") !== undefined);
    expect(subscription.model.services.has("s8")).toBe(false);
    await send(Action.Delete);
    await until(() => subscription.publicKey("k2") === undefined);
  });

  it("compares its model with one that the controller sends, and takes it over when asked to", async () => {
    start();
    controllers.setEndpoints([first.address]);
    await subscribed(first);
    await sendState(first, 5n);
    await until(() => told.length === 1);
    // In two parts, as Sallyport's controllers send it.
    const part = (fields: object) => encodeControl(edgeCtrlPb.RouterDataModelValidateRequestSchema, fields as never);
    const validate = async (fix: boolean) => {
      const state = { events: NETWORK, endIndex: 5n, timelineId: "t" };
      const body = Buffer.concat([part({ state, fix }), part({ state: { events: [service("s9")] } })]);
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
