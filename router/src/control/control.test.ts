import {
  ControlHeader,
  ControlType,
  CreateCircuitHeader,
  ctrlPb,
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  type Identity,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Forwarder, RouteOutcome } from "../forwarder/forwarder.ts";
import { ScriptedController, testControllers } from "../testing/scripted-controller.ts";
import { Control } from "./control.ts";
import type { Controllers } from "./controllers/controllers.ts";
import { EdgeCtrlError, NoControllerError } from "./errors.ts";
import { handleRoutes } from "./routes.ts";

let ctrlIdentity: Identity;
let routerIdentity: Identity;
let controller: ScriptedController;
let controllers: Controllers;
let control: Control;

beforeAll(async () => {
  const authority = await TestAuthority.create();
  ctrlIdentity = await authority.identity("ctrl1");
  routerIdentity = await authority.identity("router1");
});

beforeEach(async () => {
  controller = await ScriptedController.start(ctrlIdentity);
  controllers = testControllers(routerIdentity);
  control = new Control({
    routerId: "router1",
    controllers,
    log: silentLogger,
    edgeAddresses: () => [
      { protocol: "tls", listenHost: "0.0.0.0", listenPort: 3022, advertiseHost: "r1.example", advertisePort: 443 },
    ],
    heartbeatIntervalMs: 100,
    validate: { chunkSize: 2, minPauseMs: 0, maxPauseMs: 1 },
    connectEvents: { enabled: true, batchIntervalMs: 10, fullSyncIntervalMs: 60_000 },
    rateLimited: { workers: 5, queueLength: 100 },
  });
});

afterEach(async () => {
  control.close();
  controllers.stop();
  await controller.close();
});

/** Connects, and waits until both ends know. */
const connect = async () => {
  const connected = new Promise<void>((resolve) => controllers.onConnected(() => resolve()));
  controllers.setEndpoints([controller.address]);
  await connected;
  return controller.channel();
};
const session = (id: string) => ({ id, token: `token-${id}`, identityId: "i1", certFingerprints: ["ab"] });
const sync = (ids: string[], state: object, isFullState = true) => ({
  contentType: EdgeCtrlType.ApiSessionAdded,
  headers: new Headers()
    .setString(EdgeCtrlHeader.SyncStrategyType, "instant")
    .setString(EdgeCtrlHeader.SyncStrategyState, JSON.stringify(state)),
  body: encodeControl(edgeCtrlPb.ApiSessionAddedSchema, { isFullState, apiSessions: ids.map(session) }),
});
const terminator = (address: string) => ({
  address,
  sessionToken: "st",
  apiSessionToken: "at",
  fingerprints: ["ab"],
  peerData: new Map([[1003, Buffer.from("key")]]),
  cost: 7,
  precedence: 1,
});
const created = (terminatorId: string, result: edgeCtrlPb.CreateTerminatorResult, msg = "") => ({
  contentType: EdgeCtrlType.CreateTerminatorV2Response,
  body: encodeControl(edgeCtrlPb.CreateTerminatorV2ResponseSchema, { terminatorId, result, msg }),
});
const Result = edgeCtrlPb.CreateTerminatorResult;

describe("a controller that answers no heartbeat", () => {
  it("is left and dialled again", async () => {
    const impatient = testControllers(routerIdentity, {
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
    expect((await found)?.fingerprints).toEqual(["ab"]);
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
});

describe("circuits", () => {
  const request = {
    sessionToken: "tok",
    apiSessionToken: "api",
    fingerprints: ["0011223344556677889900aabbccddeeff001122"],
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

  it("carry the controller's refusal, or say that there is none to ask", async () => {
    await expect(control.createCircuit({ ...request, timeoutMs: 50 })).rejects.toThrow(NoControllerError);
    await connect();
    controller.on(EdgeCtrlType.CreateCircuitV2Request, (message, channel) =>
      channel.reply(message, {
        contentType: EdgeCtrlType.Error,
        headers: new Headers().setU32(EdgeCtrlHeader.ErrorCode, 3),
        body: Buffer.from("invalid session"),
      }),
    );
    const refused = await control.createCircuit(request).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(EdgeCtrlError);
    expect(refused).toMatchObject({ edgeCode: 3, text: "invalid session" });
  });
});

describe("terminators", () => {
  it("are created with all they have, and updated", async () => {
    await connect();
    controller.on(EdgeCtrlType.CreateTerminatorV2Request, (message, channel) => {
      const sent = decodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, message.body);
      expect(sent).toMatchObject({ address: "t1", sessionToken: "st", cost: 7, precedence: 1 });
      channel.reply(message, created("t1", Result.Success));
    });
    expect(await control.createTerminator(terminator("t1"))).toMatchObject({ terminatorId: "t1", result: 0 });
    controller.on(EdgeCtrlType.UpdateTerminatorRequest, (message, channel) =>
      channel.reply(message, { contentType: EdgeCtrlType.UpdateTerminatorResponse }),
    );
    await control.updateTerminator({
      terminatorId: "t1",
      sessionToken: "st",
      apiSessionToken: "at",
      fingerprints: [],
      cost: 9,
    });
    const update = decodeControl(
      edgeCtrlPb.UpdateTerminatorRequestSchema,
      (await controller.next(EdgeCtrlType.UpdateTerminatorRequest)).body,
    );
    expect(update).toMatchObject({ updateCost: true, cost: 9, updatePrecedence: false });
  });

  it("wait for a controller, and are sent again when the first one is lost before it answered", async () => {
    const outcome = control.createTerminator(terminator("t1"));
    const channel = await connect();
    await controller.next(EdgeCtrlType.CreateTerminatorV2Request);
    controller.on(EdgeCtrlType.CreateTerminatorV2Request, (message, again) =>
      again.reply(message, created("t1", Result.Success)),
    );
    channel.close();
    expect((await outcome).result).toBe(0);
  }, 30_000);

  it("that a controller refuses are told", async () => {
    await connect();
    const lost: string[] = [];
    control.onTerminatorLost((id, outcome) => lost.push(`${id} ${outcome.message}`));
    controller.on(EdgeCtrlType.CreateTerminatorV2Request, (message, channel) =>
      channel.reply(message, created("t1", Result.FailedInvalidSession, "invalid session")),
    );
    expect((await control.createTerminator(terminator("t1"))).result).toBe(4);
    expect(lost).toEqual(["t1 invalid session"]);
  });

  it("that go on under another session are asked for again: the new session is not taken on trust", async () => {
    await connect();
    const asked: string[] = [];
    controller.on(EdgeCtrlType.CreateTerminatorV2Request, (message, channel) => {
      const { sessionToken } = decodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, message.body);
      asked.push(sessionToken);
      const result = sessionToken === "forged" ? Result.FailedInvalidSession : Result.Success;
      channel.reply(message, created("t1", result));
    });
    const lost: string[] = [];
    control.onTerminatorLost((id) => lost.push(id));
    expect((await control.createTerminator(terminator("t1"))).result).toBe(0);
    expect((await control.createTerminator(terminator("t1"))).result).toBe(0);
    expect((await control.createTerminator({ ...terminator("t1"), sessionToken: "st2" })).result).toBe(0);
    expect((await control.createTerminator({ ...terminator("t1"), sessionToken: "forged" })).result).toBe(4);
    expect(asked).toEqual(["st", "st2", "forged"]);
    expect(lost).toEqual(["t1"]);
  });

  it("are removed in batches of 50, again when the controller is busy", async () => {
    await connect();
    let calls = 0;
    controller.on(ControlType.RemoveTerminatorsRequest, (message, channel) => {
      if (calls++ > 0) return channel.replyResult(message, true);
      const headers = new Headers().setBool(2, false).setU32(ControlHeader.RateLimited, 1);
      channel.reply(message, { contentType: 2, headers, body: Buffer.from("server too busy") });
    });
    control.removeTerminators(Array.from({ length: 60 }, (_, i) => `t${i}`));
    const batch = async () =>
      decodeControl(
        ctrlPb.RemoveTerminatorsRequestSchema,
        (await controller.next(ControlType.RemoveTerminatorsRequest)).body,
      ).terminatorIds.length;
    expect([await batch(), await batch(), await batch()]).toEqual([50, 50, 10]);
  }, 30_000);

  it("are validated by their binding, with the marker echoed", async () => {
    const channel = await connect();
    control.onValidateTerminators("edge", ({ id }) => (id === "t1" ? { valid: true } : { valid: false, reason: 1 }));
    const body = encodeControl(ctrlPb.ValidateTerminatorsV2RequestSchema, {
      terminators: [
        { id: "t1", binding: "edge", address: "t1", marker: 5n },
        { id: "t2", binding: "edge", address: "t2", marker: 6n },
        { id: "t3", binding: "carrier-pigeon", address: "t3", marker: 7n },
      ],
      fixInvalid: true,
    });
    const reply = await channel.request({ contentType: ControlType.ValidateTerminatorsV2Request, body });
    expect(reply.contentType).toBe(ControlType.ValidateTerminatorsV2Response);
    const { states } = decodeControl(ctrlPb.ValidateTerminatorsV2ResponseSchema, reply.body);
    expect(states).toMatchObject({
      t1: { valid: true, marker: 5n },
      t2: { valid: false, reason: 1, marker: 6n },
      t3: { valid: false, reason: 0, marker: 7n },
    });
  });
});

describe("routes", () => {
  const route = (circuitId: string) => ({
    contentType: ControlType.Route,
    body: encodeControl(ctrlPb.RouteSchema, { circuitId, attempt: 3, timeout: 1_000_000_000n }),
  });
  const forwarder = (outcome: RouteOutcome) =>
    ({ route: () => Promise.resolve(outcome), unroute: () => {} }) as unknown as Forwarder;

  it("are answered with the success header and the terminating side's data", async () => {
    handleRoutes(controllers, forwarder({ ok: true, peerData: new Map([[1003, Buffer.from("k")]]) }), silentLogger);
    const channel = await connect();
    const reply = await channel.request(route("c1"));
    expect([reply.contentType, reply.body.toString()]).toEqual([ControlType.RouteResult, "c1"]);
    expect(reply.headers.getU32(ControlHeader.RouteResultAttempt)).toBe(3);
    expect(reply.headers.getBool(ControlHeader.RouteResultSuccess)).toBe(true);
    expect(reply.headers.has(ControlHeader.RouteResultErrorCode)).toBe(false);
    expect(reply.headers.getString(1003)).toBe("k");
  });

  it("that fail for a reason of any length are answered", async () => {
    const error = "x".repeat(100_000);
    handleRoutes(controllers, forwarder({ ok: false, error, errorCode: 1, peerData: new Map() }), silentLogger);
    const reply = await (await connect()).request(route("c1"), { timeoutMs: 5_000 });
    expect(reply.headers.getString(ControlHeader.RouteResultError)).toBe("x".repeat(1_024));
  });

  it("that fail carry text and code and no success header at all", async () => {
    handleRoutes(controllers, forwarder({ ok: false, error: "x", errorCode: 1, peerData: new Map() }), silentLogger);
    const channel = await connect();
    const reply = await channel.request(route("c1"));
    expect(reply.headers.has(ControlHeader.RouteResultSuccess)).toBe(false);
    expect(reply.headers.getString(ControlHeader.RouteResultError)).toBe("x");
    expect(reply.headers.getByte(ControlHeader.RouteResultErrorCode)).toBe(1);
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
