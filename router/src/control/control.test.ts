import {
  ControlType,
  CreateCircuitHeader,
  ctrlPb,
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  silentLogger,
} from "@sallyport/wire";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Forwarder } from "../forwarder/forwarder.ts";
import {
  type ControlIdentities,
  controlIdentities,
  type ScriptedControl,
  startScriptedControl,
} from "../testing/scripted-control.ts";
import { type ScriptedController, testControllers } from "../testing/scripted-controller.ts";
import type { Control } from "./control.ts";
import type { Controllers } from "./controllers/controllers.ts";
import { EdgeCtrlError, NoControllerError } from "./errors.ts";
import { handleRoutes } from "./routes.ts";

let identities: ControlIdentities;
let end: ScriptedControl;
let controller: ScriptedController;
let controllers: Controllers;
let control: Control;

beforeAll(async () => {
  identities = await controlIdentities();
});

beforeEach(async () => {
  end = await startScriptedControl(identities);
  ({ controller, controllers, control } = end);
});

afterEach(async () => await end.close());

const connect = async () => await end.connect();
const session = (id: string) => ({ id, token: `token-${id}`, identityId: "i1", certFingerprints: ["ab"] });
const sync = (ids: string[], state: object, isFullState = true) => ({
  contentType: EdgeCtrlType.ApiSessionAdded,
  headers: new Headers()
    .setString(EdgeCtrlHeader.SyncStrategyType, "instant")
    .setString(EdgeCtrlHeader.SyncStrategyState, JSON.stringify(state)),
  body: encodeControl(edgeCtrlPb.ApiSessionAddedSchema, { isFullState, apiSessions: ids.map(session) }),
});

describe("a controller that answers no heartbeat", () => {
  it("is left and dialled again", async () => {
    const impatient = testControllers(identities.router, {
      sendIntervalMs: 5,
      checkIntervalMs: 5,
      closeUnresponsiveMs: 20,
    });
    const lost = new Promise<Error | undefined>((resolve) => impatient.onDisconnected((_who, why) => resolve(why)));
    impatient.setEndpoints([controller.address]);
    expect(await lost).toMatchObject({ code: "HEARTBEAT_UNANSWERED" });
    await controller.connections(2);
    impatient.stop();
  });
});

describe("connecting", () => {
  it("answers the edge hello with the addresses SDKs use", async () => {
    const channel = await connect();
    const body = encodeControl(edgeCtrlPb.ServerHelloSchema, { version: "v1.6.20" });
    const headers = new Headers().setBool(EdgeCtrlHeader.DataModel, true);
    const reply = await channel.request({ contentType: EdgeCtrlType.ServerHello, headers, body });
    expect(reply.contentType).toBe(EdgeCtrlType.ClientHello);
    expect(reply.headers.has(EdgeCtrlHeader.DataModel)).toBe(false);
    const hello = decodeControl(edgeCtrlPb.ClientHelloSchema, reply.body);
    expect(hello.protocols).toEqual(["tls"]);
    expect(hello.listeners[0]?.advertise).toMatchObject({
      value: "tls:r1.example:443",
      hostname: "r1.example",
      port: 443,
    });
  });

  it("reports who is connected, all of it after a connect", async () => {
    const who = { identityId: "i1", connectionId: "c1", remoteAddress: "1.2.3.4:5", localAddress: "6.7.8.9:10" };
    control.identityConnected(who);
    await connect();
    const full = decodeControl(
      edgeCtrlPb.ConnectEventsSchema,
      (await controller.next(EdgeCtrlType.ConnectEvents)).body,
    );
    expect(full).toMatchObject({ fullState: true, events: [{ identityId: "i1", isConnected: true }] });
    control.identityDisconnected(who);
    for (;;) {
      const part = decodeControl(
        edgeCtrlPb.ConnectEventsSchema,
        (await controller.next(EdgeCtrlType.ConnectEvents)).body,
      );
      if (part.events[0]?.isConnected === false) break;
    }
  });

  it("has session tokens validated in chunks, without those that validate themselves", async () => {
    control.setTokenSource({ apiSessionTokens: () => [], sessionTokens: () => ["a", "eyJhbGciOi", "b", "c"] });
    await connect();
    const chunk = async () =>
      decodeControl(
        edgeCtrlPb.ValidateSessionsRequestSchema,
        (await controller.next(EdgeCtrlType.ValidateSessionsRequest)).body,
      ).sessionTokens;
    expect([await chunk(), await chunk()]).toEqual([["a", "b"], ["c"]]);
  });

  it("refuses a controller that announces no version, and comes back", async () => {
    controller.version = undefined;
    controllers.setEndpoints([controller.address]);
    const channel = await controller.channel();
    await channel.closed;
    expect(control.isConnected()).toBe(false);
    await controller.connections(2);
  });
});

describe("API sessions", () => {
  it("are found when announced, gone when a full synchronisation leaves them out", async () => {
    const channel = await connect();
    const found = control.findApiSession("token-b", { timeoutMs: 5000 });
    channel.send(sync(["a"], {}, false));
    channel.send(sync(["b"], { id: "s1", sequence: 0, isLast: false }));
    expect((await found)?.certFingerprints).toEqual(["ab"]);
    const removed = new Promise((resolve) => control.onApiSessionRemoved((gone) => resolve(gone.id)));
    channel.send(sync(["c"], { id: "s2", sequence: 0, isLast: true }));
    expect(await removed).toBe("a");
    expect(await control.findApiSession("token-b", { timeoutMs: 0 })).toBeUndefined();
    expect((await control.findApiSession("token-c", { timeoutMs: 0 }))?.id).toBe("c");
  });

  it("survive a synchronisation state that cannot be read", async () => {
    const channel = await connect();
    channel.send(sync(["a"], {}, false));
    channel.send(sync(["b"], { id: "", sequence: 0, isLast: true }));
    expect((await control.findApiSession("token-b", { timeoutMs: 5000 }))?.id).toBe("b");
    expect((await control.findApiSession("token-a", { timeoutMs: 0 }))?.id).toBe("a");
  });

  it("end one by one, and a removed session is remembered", async () => {
    const channel = await connect();
    const gone = new Promise((resolve) => control.onSessionRemoved(resolve));
    const body = encodeControl(edgeCtrlPb.SessionRemovedSchema, { tokens: ["st"] });
    channel.send({ contentType: EdgeCtrlType.SessionRemoved, body });
    expect(await gone).toBe("st");
    expect([control.wasSessionRemoved("st"), control.wasSessionRemoved("other")]).toEqual([true, false]);
  });

  it("end by id, too, when the controller names one for each token", async () => {
    const channel = await connect();
    const gone: string[] = [];
    control.onSessionRemoved((name) => gone.push(name));
    const remove = (tokens: string[], ids: string[]) => {
      const body = encodeControl(edgeCtrlPb.SessionRemovedSchema, { tokens, ids });
      channel.send({ contentType: EdgeCtrlType.SessionRemoved, body });
    };
    remove(["t1", "same"], ["i1", "same"]);
    remove(["t2", "t3"], ["i2"]);
    await channel.request({ contentType: 1 });
    expect(gone).toEqual(["t1", "same", "i1", "t2", "t3"]);
  });
});

describe("circuits", () => {
  const request = {
    sessionToken: "tok",
    apiSessionToken: "api",
    fingerprints: ["0011223344556677889900aabbccddeeff001122"],
    timeoutMs: 30_000,
    peerData: new Map([[1008, Buffer.from("bob")]]),
  };

  it("are asked for in headers and given back whole", async () => {
    await connect();
    controller.on(EdgeCtrlType.CreateCircuitV2Request, (message, channel) => {
      expect(message.body.length).toBe(0);
      expect(message.headers.getString(CreateCircuitHeader.SessionToken)).toBe("tok");
      expect(message.headers.getU32Map(CreateCircuitHeader.PeerData)?.get(1008)?.toString()).toBe("bob");
      const headers = new Headers()
        .setString(CreateCircuitHeader.ResponseCircuitId, "c1")
        .setString(CreateCircuitHeader.ResponseAddress, "ing")
        .setU32Map(CreateCircuitHeader.PeerData, new Map())
        .setStringMap(CreateCircuitHeader.ResponseTags, new Map([["serviceId", "s1"]]));
      channel.reply(message, { contentType: EdgeCtrlType.CreateCircuitV2Response, headers });
    });
    expect(await control.createCircuit(request)).toEqual({
      circuitId: "c1",
      address: "ing",
      peerData: new Map(),
      tags: new Map([["serviceId", "s1"]]),
      controllerId: "ctrl1",
    });
  });

  it("are asked for again when the controller goes away before it has answered, and comes back", async () => {
    await connect();
    let asked = 0;
    controller.on(EdgeCtrlType.CreateCircuitV2Request, (message, channel) => {
      asked++;
      if (asked === 1) return channel.close();
      const headers = new Headers()
        .setString(CreateCircuitHeader.ResponseCircuitId, "c2")
        .setString(CreateCircuitHeader.ResponseAddress, "ing");
      channel.reply(message, { contentType: EdgeCtrlType.CreateCircuitV2Response, headers });
    });
    expect(await control.createCircuit(request)).toMatchObject({ circuitId: "c2" });
    expect(asked).toBe(2);
  });

  it("are asked for by service with an access token, where the controller knows how", async () => {
    const { sessionToken: _none, ...rest } = request;
    const byService = { ...rest, serviceId: "s1", identityId: "i1", instanceId: "one" };
    expect(control.takesServiceCircuits).toBe(false);
    await connect();
    expect(control.takesServiceCircuits).toBe(false);
    await expect(control.createServiceCircuit(byService)).rejects.toMatchObject({ edgeCode: 3 });
    controller.capabilities = 0x7e;
    const again = new Promise<void>((resolve) => controllers.onConnected(() => resolve()));
    (await controller.channel()).close();
    await again;
    expect(control.takesServiceCircuits).toBe(true);
    controller.on(EdgeCtrlType.CreateCircuitV3Request, (message, channel) => {
      expect(message.body.length).toBe(0);
      const told = [CreateCircuitHeader.IdentityId, CreateCircuitHeader.ServiceId, CreateCircuitHeader.ApiSessionToken];
      expect(told.map((key) => message.headers.getString(key))).toEqual(["i1", "s1", "api"]);
      expect(message.headers.getString(CreateCircuitHeader.RequestedCircuitId)).toMatch(/^\w{20,}$/);
      expect(message.headers.getString(CreateCircuitHeader.TerminatorInstanceId)).toBe("one");
      expect(message.headers.getStringList(CreateCircuitHeader.Fingerprints)).toEqual(request.fingerprints);
      expect(message.headers.has(CreateCircuitHeader.SessionToken)).toBe(false);
      const headers = new Headers()
        .setString(CreateCircuitHeader.ResponseCircuitId, "c3")
        .setString(CreateCircuitHeader.ResponseAddress, "ing");
      channel.reply(message, { contentType: EdgeCtrlType.CreateCircuitV3Response, headers });
    });
    expect(await control.createServiceCircuit(byService)).toMatchObject({ circuitId: "c3", address: "ing" });
  });

  it("carry the controller's refusal, or say that there is none to ask", async () => {
    await expect(control.createCircuit({ ...request, timeoutMs: 50 })).rejects.toThrow(NoControllerError);
    await connect();
    controller.on(EdgeCtrlType.CreateCircuitV2Request, (message, channel) =>
      channel.reply(message, {
        contentType: EdgeCtrlType.Error,
        headers: new Headers().setU32(EdgeCtrlHeader.ErrorCode, 3).setU32(EdgeCtrlHeader.RetryHint, 2),
        body: Buffer.from("invalid session"),
      }),
    );
    const refused = await control.createCircuit(request).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(EdgeCtrlError);
    expect(refused).toMatchObject({ edgeCode: 3, text: "invalid session", retryHint: 2 });
  });
});

describe("bodies that cannot be read", () => {
  it("are dropped one by one; the channel and everything on it go on", async () => {
    handleRoutes(
      controllers,
      { route: () => expect.fail(), unroute: () => expect.fail() } as unknown as Forwarder,
      silentLogger,
    );
    const channel = await connect();
    for (const contentType of [
      ControlType.Route,
      ControlType.Unroute,
      ControlType.ValidateTerminatorsV2Request,
      EdgeCtrlType.ApiSessionAdded,
      EdgeCtrlType.ApiSessionUpdated,
      EdgeCtrlType.ApiSessionRemoved,
      EdgeCtrlType.SessionRemoved,
      EdgeCtrlType.DataState,
      EdgeCtrlType.DataStateChangeSet,
      EdgeCtrlType.CreateTerminatorV2Response,
      4711,
    ]) {
      channel.send({ contentType, body: Buffer.from("ffffffff", "hex") });
    }
    const body = Buffer.from("ffffffff", "hex");
    const reply = await channel.request({ contentType: ControlType.InspectRequest, body });
    expect(decodeControl(ctrlPb.InspectResponseSchema, reply.body)).toMatchObject({
      success: false,
      errors: [expect.any(String)],
    });
    expect(channel.isClosed).toBe(false);
  });
});

describe("reports and questions", () => {
  it("faults and confirmations go to the owner", async () => {
    await connect();
    control.sendFault({ subject: 3, ids: ["c1", "c2"], controllerId: "ctrl1" });
    control.sendFault({ subject: 3, ids: ["c3"], controllerId: "another" });
    control.confirmCircuits("ctrl1", new Map([["c1", 61_000]]));
    const fault = decodeControl(ctrlPb.FaultSchema, (await controller.next(ControlType.Fault)).body);
    expect(fault).toMatchObject({ subject: 3, id: "c1 c2" });
    const asked = decodeControl(
      ctrlPb.CircuitConfirmationSchema,
      (await controller.next(ControlType.CircuitConfirmation)).body,
    );
    expect(asked).toMatchObject({ circuitIds: ["c1"], idleTimes: { c1: 61_000_000_000n } });
  });

  it("inspections answer what is known and leave out the rest; names keep their spelling", async () => {
    const channel = await connect();
    control.inspection.register("circuit:*", (name) => (name.endsWith("aB") ? { circuitId: "aB" } : undefined));
    const body = encodeControl(ctrlPb.InspectRequestSchema, {
      requestedValues: ["StackDump", "circuit:aB", "circuit:ab", "weather", "router-controllers"],
    });
    const reply = await channel.request({ contentType: ControlType.InspectRequest, body });
    const answer = decodeControl(ctrlPb.InspectResponseSchema, reply.body);
    expect(answer.success).toBe(true);
    expect(answer.values.map((value) => value.name)).toEqual(["StackDump", "circuit:aB", "router-controllers"]);
    expect(JSON.parse(answer.values[1]!.value)).toEqual({ circuitId: "aB" });
  });

  it("API sessions in use are kept alive", async () => {
    await connect();
    control.setTokenSource({ apiSessionTokens: () => ["a", "b"], sessionTokens: () => [] });
    const beat = await controller.next(EdgeCtrlType.ApiSessionHeartbeat);
    expect(decodeControl(edgeCtrlPb.ApiSessionHeartbeatSchema, beat.body).tokens).toEqual(["a", "b"]);
  });
});
