import { once } from "node:events";
import {
  BaseHeader,
  BaseType,
  ClusterHeader,
  ControlType,
  ctrlPb,
  decodeControl,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  ManagementHeader,
  ManagementType,
  mgmtPb,
  silentLogger,
} from "@sallyport/wire";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Dispatcher } from "../events/dispatcher.ts";
import { DataModelTooLargeError } from "../fabric/data-model/data-model-source.ts";
import { TestFabric } from "../fabric/testing/test-fabric.ts";
import { get, split, startTestApi, type TestApi } from "../http/testing/test-api.ts";
import { ChangingReplicas, testReplica } from "../model/testing/changing-replicas.ts";
import { WholeNetwork } from "../replicas/whole-network.ts";
import { testStore } from "../store/testing/test-store.ts";
import { Management } from "./management.ts";
import { ManagementClient, type ManagementClientOptions } from "./testing/management-client.ts";

let database: Awaited<ReturnType<typeof testStore>>;
let fabric: TestFabric;
let dispatcher: Dispatcher;
let replicas: ChangingReplicas;
let management: Management;
let api: TestApi;
let admin: ManagementClient;
/** Called after the work of a request, before its answer. */
let known: () => Promise<void>;

beforeAll(async () => {
  database = await testStore();
});
afterAll(async () => {
  await database.drop();
});

beforeEach(async () => {
  fabric = await TestFabric.start();
  dispatcher = new Dispatcher({ sourceId: "ctrl1", log: silentLogger });
  replicas = new ChangingReplicas([testReplica("ctrl1")]);
  management = new Management({
    controllerId: "ctrl1",
    db: database.store.db,
    changes: database.store.changes,
    fabric: fabric.fabric,
    network: new WholeNetwork(fabric.fabric),
    model: fabric.model,
    replicas,
    dispatcher,
    snapshot: async () => "/var/backups/one",
    dataModelProblems: async () => ["service s is stale"],
    log: silentLogger,
  });
  known = async () => {};
  api = await startTestApi({
    handlers: {},
    upgrades: [management],
    within: async (_request, work) => {
      const done = await work();
      await known();
      return done;
    },
  });
  admin = await connect("admin");
});
afterEach(async () => {
  admin.socket.terminate();
  await management.close();
  await api.close();
  await fabric.stop();
});

const connect = (token?: string, more: Partial<ManagementClientOptions> = {}) =>
  ManagementClient.connect({
    port: api.port,
    ca: api.authority.certPem,
    ...(token === undefined ? {} : { token }),
    ...more,
  });
const streamEvents = (...types: string[]) => ({
  contentType: ManagementType.StreamEventsRequest,
  body: Buffer.from(JSON.stringify({ format: "json", subscriptions: types.map((type) => ({ type })) })),
});
const routerEvent = (id: string) =>
  dispatcher.emit({ namespace: "router", event_type: "router-online", router_id: id, router_online: true });

describe("the management channel's door", () => {
  it.each([undefined, "full", "partial", "unknown"])("0.23.0: is closed to the session %s with 401", async (token) => {
    await expect(connect(token)).rejects.toThrow("401");
  });

  it("answers an upgrade anywhere else as an ordinary request", async () => {
    const upgrade =
      "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a\r\n";
    const answer = await api.exchange(get("/fabric/v1/nothing", upgrade));
    expect(split(answer).status).toBe(404);
  });

  it.each(["/fabric/v1/ws-api", "/fabric//v1/./ws-api"])("names the error like the API at %s", async (path) => {
    const upgrade = `GET ${path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n`;
    const { status, body } = split(await api.exchange(upgrade));
    expect(status).toBe(401);
    expect(JSON.parse(body)).toMatchObject({ error: { code: "UNAUTHORIZED" }, meta: { apiVersion: "1.0.0" } });
  });

  it("ends a channel that sends text, half a frame, or two", async () => {
    for (const send of [
      (client: ManagementClient) => client.socket.send("hello"),
      (client: ManagementClient) => client.socket.send(Buffer.from("030609")),
      (client: ManagementClient) => client.socket.send(Buffer.alloc(40)),
    ]) {
      const client = await connect("admin");
      const closed = once(client.socket, "close");
      send(client);
      const [code] = await closed;
      expect(code).toBe(1002);
    }
  });

  it("refuses requests that it does not know, and larger ones than it takes", async () => {
    expect(await admin.result({ contentType: 10_999 })).toMatchObject({ ok: false });
    const closed = once(admin.socket, "close");
    admin.send({ contentType: ManagementType.InspectRequest, body: Buffer.alloc(3 << 20) });
    await closed;
  });

  it("admits a bounded number of channels", async () => {
    const others = await Promise.allSettled(Array.from({ length: 70 }, () => connect("admin")));
    const open = others.filter((other) => other.status === "fulfilled");
    expect(open).toHaveLength(63);
    for (const { value } of open) value.socket.terminate();
  });
});

describe("event streams", () => {
  it("begin after the answer, carry the kind in a header, and end with the channel", async () => {
    expect(await admin.result(streamEvents("router"))).toEqual({ ok: true, text: "success" });
    routerEvent("r1");
    const event = await admin.nextOf(ManagementType.StreamEventsEvent);
    expect(event.headers.getString(ManagementHeader.EventType)).toBe("router");
    expect(JSON.parse(event.body.toString())).toMatchObject({ router_id: "r1", event_src_id: "ctrl1" });
    admin.socket.terminate();
    await expect.poll(() => dispatcher.wants("router")).toBe(false);
  });

  it.each([
    [{ format: "plain", subscriptions: [{ type: "router" }] }, /json/],
    [{ format: "json", subscriptions: [{ type: "nothing" }] }, /one of alert/],
    [{ format: "json", subscriptions: [] }, /subscriptions/],
    [{ format: "json" }, /subscriptions/],
    ["", /cannot be understood/],
  ])("are refused for %j", async (request, why) => {
    const { ok, text } = await admin.result({
      contentType: ManagementType.StreamEventsRequest,
      body: Buffer.from(JSON.stringify(request)),
    });
    expect(ok).toBe(false);
    expect(text).toMatch(why);
  });

  it("never hold up anything for a client that reads nothing: what it has no room for is dropped", async () => {
    // Its memory is this process's, which is measured: what no client waits for goes.
    const quick = await connect("admin", { keeps: () => false });
    expect(await quick.result(streamEvents("router"))).toMatchObject({ ok: true });
    const slow = await connect("admin");
    expect(await slow.result(streamEvents("router"))).toMatchObject({ ok: true });
    slow.socket.pause();
    const id = "r".repeat(4_000);
    const before = process.memoryUsage().arrayBuffers;
    for (let n = 0; n < 20_000; n++) {
      routerEvent(id);
      if (n % 500 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    // Also a client that reads everything loses what comes faster than it can be sent.
    const last = setInterval(() => routerEvent("last"), 50);
    await quick.next("the last event", ({ body }) => body.includes('"last"')).finally(() => clearInterval(last));
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(200 * 1024 * 1024);
    slow.socket.resume();
    await expect.poll(() => slow.count).toBeGreaterThan(1_000);
    expect(slow.count).toBeLessThan(20_000);
    for (const client of [quick, slow]) client.socket.terminate();
  });
});

describe("requests about routers", () => {
  const forRouter = (id: string) => new Headers().setString(ManagementHeader.RouterId, id);
  const removal = (id: string) => ({
    contentType: ManagementType.ClusterRemoveMember,
    headers: new Headers().setString(ClusterHeader.MemberId, id),
  });

  it("inspects the controller and routers", async () => {
    const router = await fabric.connect("r1");
    const pending = admin.request({
      contentType: ManagementType.InspectRequest,
      body: encodeControl(mgmtPb.InspectRequestSchema, { appRegex: "r1", requestedValues: ["links"] }),
    });
    const asked = await router.next(ControlType.InspectRequest);
    router.channel.reply(asked, {
      contentType: ControlType.InspectResponse,
      body: encodeControl(ctrlPb.InspectResponseSchema, { success: true, values: [{ name: "links", value: "{}" }] }),
    });
    const answer = await pending;
    expect(answer.contentType).toBe(ManagementType.InspectResponse);
    expect(decodeControl(mgmtPb.InspectResponseSchema, answer.body)).toMatchObject({
      success: true,
      values: [{ appId: "r1", name: "links", value: "{}" }],
    });
  });

  it("forwards routes and dumps, quiesces, disconnects and decommissions", async () => {
    const router = await fabric.connect("r1");
    const route = admin.result({
      contentType: ManagementType.UpdateRoute,
      headers: forRouter("r1"),
      body: encodeControl(ctrlPb.RouteSchema, { circuitId: "c1" }),
    });
    router.acceptRoute((await router.nextRoute("c1")).message);
    expect(await route).toEqual({ ok: true, text: "circuit c1 was routed" });

    const unroute = encodeControl(ctrlPb.UnrouteSchema, { circuitId: "c1", now: true });
    await admin.result({ contentType: ManagementType.Unroute, headers: forRouter("r1"), body: unroute });
    expect(await router.nextUnroute()).toMatchObject({ circuitId: "c1", now: true });

    const quiesce = { contentType: ManagementType.QuiesceRouter, headers: forRouter("r1") };
    expect(await admin.result(quiesce)).toEqual({ ok: true, text: "router quiesced" });
    expect(await admin.result({ contentType: ManagementType.QuiesceRouter })).toMatchObject({ ok: false });

    const off = forRouter("r1").setBool(ManagementHeader.ControlChannelToggle, false);
    expect(await admin.result({ contentType: ManagementType.ToggleControlChannel, headers: off })).toMatchObject({
      ok: true,
    });
    await router.channel.closed;
    expect(await admin.result({ contentType: ManagementType.DumpLinks, headers: forRouter("r1") })).toMatchObject({
      ok: false,
    });
    const leave = { contentType: ManagementType.DecommissionRouter, headers: forRouter("r1") };
    expect(await admin.result(leave)).toMatchObject({ ok: true });
  });

  it.each([
    ["quiesces a router", { contentType: ManagementType.QuiesceRouter, headers: forRouter("r1") }],
    ["decommissions a router", { contentType: ManagementType.DecommissionRouter, headers: forRouter("r1") }],
    ["removes a controller", removal("c2")],
  ])("%s, and answers when the other controllers know of it", async (_what, request) => {
    await fabric.connect("r1");
    replicas.isShared = true;
    replicas.set([testReplica("c1", 1), testReplica("c2", 2, { isLive: false })]);
    const isDone = Promise.withResolvers<void>();
    const areTold = Promise.withResolvers<void>();
    known = () => {
      isDone.resolve();
      return areTold.promise;
    };
    const sequence = admin.send(request);
    await isDone.promise;
    await admin.request({ contentType: BaseType.Ping });
    expect(admin.count).toBe(0);
    areTold.resolve();
    const answer = await admin.next("the answer", ({ replyFor }) => replyFor === sequence);
    expect(answer.headers.getBool(BaseHeader.ResultSuccess)).toBe(true);
  });

  it("writes snapshots, and says that it is no cluster", async () => {
    expect(await admin.result({ contentType: ManagementType.SnapshotDatabase })).toEqual({
      ok: true,
      text: "/var/backups/one",
    });
    expect(await admin.result({ contentType: ManagementType.ClusterListMembers })).toMatchObject({
      ok: false,
      text: expect.stringContaining("SERVER_NOT_RUNNING_IN_HA_MODE"),
    });
  });

  it("names the controllers beside it, removes one, and says how the rest is done", async () => {
    replicas.isShared = true;
    replicas.set([testReplica("c1", 1, { leads: true }), testReplica("c2", 2, { isLive: false })]);
    const { contentType, body } = await admin.request({ contentType: ManagementType.ClusterListMembers });
    expect(contentType).toBe(ManagementType.ClusterMembers);
    const common = { version: "v1.6.20", isVoter: true };
    expect(decodeControl(mgmtPb.ClusterMembersSchema, body).members).toMatchObject([
      { ...common, id: "c1", address: "tls:localhost:1", isLeader: true, isConnected: true },
      { ...common, id: "c2", address: "tls:localhost:2", isLeader: false, isConnected: false },
    ]);
    expect(await admin.result(removal("c2"))).toEqual({ ok: true, text: "controller c2 was removed" });
    expect(replicas.removed).toEqual(["c2"]);
    expect(await admin.result(removal("c1"))).toEqual({
      ok: false,
      text: "ENTITY_CAN_NOT_BE_DELETED: controller c1 runs: stop it first, then remove it",
    });
    for (const type of [
      "AddMember",
      "TransferLeadership",
      "Init",
      "InitFromDatabase",
      "RestoreFromDatabase",
    ] as const) {
      const { ok, text } = await admin.result({ contentType: ManagementType[`Cluster${type}`] });
      expect([ok, text], type).toEqual([false, expect.stringMatching(/^NOT_IMPLEMENTED: .*(start|stop|restore)/)]);
    }
  });

  it("traces its control channels, and passes on what routers trace", async () => {
    const router = await fabric.connect("r1");
    admin.send({
      contentType: ManagementType.StreamTracesRequest,
      body: encodeControl(mgmtPb.StreamTracesRequestSchema, {
        isFiltered: true,
        filterType: mgmtPb.TraceFilterType.INCLUDE,
        contentTypes: [ControlType.InspectRequest, 4242],
      }),
    });
    const toggle = (enable: boolean) => ({
      contentType: ManagementType.TogglePipeTracesRequest,
      body: encodeControl(ctrlPb.TogglePipeTracesRequestSchema, { enable, appRegex: "^ctrl1$", pipeRegex: ".*" }),
    });
    expect(await admin.result(toggle(true))).toMatchObject({ ok: true });
    router.send(ControlType.InspectRequest, encodeControl(ctrlPb.InspectRequestSchema, { requestedValues: [] }));
    const own = await admin.nextOf(ManagementType.StreamTracesEvent);
    expect(decodeControl(mgmtPb.TraceEventSchema, own.body)).toMatchObject({
      identity: "ctrl1",
      channel: "r1",
      isRx: true,
      contentType: ControlType.InspectRequest,
      decode: Buffer.from('{"__decoder__":"ctrl","__message__":"InspectRequest"}'),
    });
    expect(await admin.result(toggle(false))).toMatchObject({ ok: true });
    router.send(ControlType.TraceEvent, encodeControl(mgmtPb.TraceEventSchema, { identity: "r1", contentType: 4242 }));
    const passedOn = await admin.nextOf(ManagementType.StreamTracesEvent);
    expect(decodeControl(mgmtPb.TraceEventSchema, passedOn.body)).toMatchObject({ identity: "r1" });
  });
});

describe("validations", () => {
  const router = async (id: string) => {
    const { db } = database.store;
    await db
      .insertInto("router")
      .values({ id, name: `name of ${id}` })
      .onConflict((on) => on.doNothing())
      .execute();
    return await fabric.connect(id);
  };
  const validate = async (contentType: number, filter = "") => {
    const body = encodeControl(mgmtPb.ValidateRoutersRequestSchema, { filter });
    const answer = await admin.request({ contentType, body });
    expect(answer.contentType).toBe(contentType + 1);
    return decodeControl(mgmtPb.ValidateResponseSchema, answer.body);
  };
  const answerInspect = async (from: Awaited<ReturnType<typeof router>>, name: string, value: unknown) => {
    const asked = await from.next(ControlType.InspectRequest);
    const values = [{ name, value: JSON.stringify(value) }];
    const body = encodeControl(ctrlPb.InspectResponseSchema, { success: true, values });
    from.channel.reply(asked, { contentType: ControlType.InspectResponse, body });
  };

  it("compares links", async () => {
    const r1 = await router("r1");
    await router("r2");
    const links = [
      { id: "l1", destRouterId: "r2", linkProtocol: "tls", iteration: 1 },
      { id: "l2", destRouterId: "r2", linkProtocol: "tls", iteration: 1 },
    ];
    r1.send(ControlType.RouterLinks, encodeControl(ctrlPb.RouterLinksSchema, { links }));
    await r1.roundTrip();
    expect(await validate(ManagementType.ValidateRouterLinks, 'id = "r1"')).toMatchObject({ success: true, count: 1n });
    const of = (id: string) => ({ id, dest: "r2", dialed: true });
    await answerInspect(r1, "links", { links: [of("l1"), of("l3")] });
    const { body } = await admin.nextOf(ManagementType.ValidateRouterLinks + 2);
    const found = decodeControl(mgmtPb.RouterLinkDetailsSchema, body);
    expect(found).toMatchObject({ routerId: "r1", routerName: "name of r1", validateSuccess: true });
    expect(found.linkDetails.map((link) => [link.linkId, link.ctrlState, link.routerState, link.isValid])).toEqual([
      ["l1", 1, 1, true],
      ["l3", 0, 1, false],
      ["l2", 1, 0, false],
    ]);
  });

  it("compares connected identities and circuits", async () => {
    const r1 = await router("r1");
    expect(await validate(ManagementType.ValidateIdentityConnections, 'id = "r1"')).toMatchObject({ count: 1n });
    const connections = [{ closed: false }];
    await answerInspect(r1, "identity-connection-statuses", { identity_connections: { i1: { connections } } });
    const { body } = await admin.nextOf(ManagementType.ValidateIdentityConnections + 2);
    expect(decodeControl(mgmtPb.ComponentDetailsSchema, body).errors).toEqual([
      "identity i1 is connected to the router, and not known to be",
    ]);
    await validate(ManagementType.ValidateCircuits, 'id = "r1"');
    await answerInspect(r1, "router-circuits", { circuits: { c9: { ctrlId: "ctrl1" }, c8: { ctrlId: "other" } } });
    const answer = await admin.nextOf(ManagementType.ValidateCircuits + 2);
    const { details } = decodeControl(mgmtPb.RouterCircuitDetailsSchema, answer.body);
    expect(Object.keys(details)).toEqual(["c9"]);
    expect(details.c9).toMatchObject({ missingInCtrl: true, missingInForwarder: false });
  });

  it("says of the controller's own model what is wrong with it", async () => {
    const body = encodeControl(mgmtPb.ValidateRouterDataModelRequestSchema, {
      routerFilter: 'id = "nobody"',
      validateCtrl: true,
    });
    await admin.request({ contentType: ManagementType.ValidateRouterDataModel, body });
    const answer = await admin.nextOf(ManagementType.ValidateRouterDataModel + 2);
    expect(decodeControl(mgmtPb.ComponentDetailsSchema, answer.body)).toMatchObject({
      componentType: "controller",
      componentId: "ctrl1",
      validateSuccess: false,
      errors: ["service s is stale"],
    });
  });

  it("says of a router's model that it is too large to be compared", async () => {
    const r1 = await router("r1");
    const subscription = encodeControl(edgeCtrlPb.SubscribeToDataModelRequestSchema, {});
    r1.send(EdgeCtrlType.SubscribeToDataModel, subscription);
    await r1.next(EdgeCtrlType.DataState);
    fabric.model.dataModel.validationRequest = async () => {
      throw new DataModelTooLargeError("too large");
    };
    const body = encodeControl(mgmtPb.ValidateRouterDataModelRequestSchema, { routerFilter: 'id = "r1"' });
    await admin.request({ contentType: ManagementType.ValidateRouterDataModel, body });
    const answer = await admin.nextOf(ManagementType.ValidateRouterDataModel + 2);
    expect(decodeControl(mgmtPb.ComponentDetailsSchema, answer.body)).toMatchObject({
      ...{ componentId: "r1", validateSuccess: false, errors: ["too large"] },
    });
  });

  it("says that controllers do not dial routers", async () => {
    expect(await validate(ManagementType.ValidateControllerDialers, "")).toMatchObject({
      ...{ success: false, message: "controllers of Sallyport do not dial routers", count: 0n },
    });
  });

  it("answers what it cannot use: a filter, a router's nonsense", async () => {
    expect(await validate(ManagementType.ValidateRouterLinks, "id =")).toMatchObject({ success: false, count: 0n });
    expect(await validate(ManagementType.ValidateRouterLinks, "nothing = 1")).toMatchObject({ success: false });
    const r1 = await router("r1");
    await validate(ManagementType.ValidateSdkTerminators, 'id = "r1"');
    await answerInspect(r1, "sdk-terminators", { entries: "none" });
    const { body } = await admin.nextOf(ManagementType.ValidateSdkTerminators + 2);
    expect(decodeControl(mgmtPb.RouterTerminatorsDetailsSchema, body)).toMatchObject({
      validateSuccess: false,
      message: expect.stringContaining("cannot be used"),
    });
  });
});
