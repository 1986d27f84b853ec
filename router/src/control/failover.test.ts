import { pause } from "@sallyport/async";
import {
  BaseType,
  ControlHeader,
  ControllerCapability,
  ControlType,
  CreateCircuitHeader,
  capabilityMask,
  ctrlPb,
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  FaultSubject,
  formatAddress,
  Headers,
  Precedence,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ScriptedControl, startScriptedControl } from "../testing/scripted-control.ts";
import { ScriptedController } from "../testing/scripted-controller.ts";
import { giveUpLateCircuits } from "./late-circuits.ts";

let end: ScriptedControl;
/** It answers faster: it is asked. */
let first: ScriptedController;
let second: ScriptedController;

beforeEach(async () => {
  const authority = await TestAuthority.create();
  const [controller, router, other] = await Promise.all(
    ["ctrl1", "r1", "ctrl2"].map((name) => authority.identity(name)),
  );
  end = await startScriptedControl({ controller: controller!, router: router! });
  first = end.controller;
  second = await ScriptedController.start(other!, "ctrl2");
});

afterEach(async () => {
  await end.close();
  await second.close();
});

async function connect(): Promise<void> {
  end.controllers.setEndpoints([first.address, second.address]);
  await expect.poll(() => end.controllers.all()).toHaveLength(2);
  const now = performance.now();
  end.controllers.byId("ctrl1")?.heard(1, now);
  end.controllers.byId("ctrl2")?.heard(20, now);
}

const dies = (): void => end.controllers.suspend(formatAddress(first.address));
const faultOf = async () => {
  const { body, headers } = await second.next(ControlType.Fault);
  return { ...decodeControl(ctrlPb.FaultSchema, body), owner: headers.getString(ControlHeader.CircuitOwner) };
};

describe("a session that one controller announces while another one synchronises", () => {
  it.each([
    ["announces", false],
    ["lists", true],
  ])("stays known when only the one that %s it knows it", async (_, isFullState) => {
    await connect();
    const send = async (from: ScriptedController, ids: string[], state: object, isFull = true) =>
      (await from.channel()).send({
        contentType: EdgeCtrlType.ApiSessionAdded,
        headers: new Headers()
          .setString(EdgeCtrlHeader.SyncStrategyType, "instant")
          .setString(EdgeCtrlHeader.SyncStrategyState, JSON.stringify(state)),
        body: encodeControl(edgeCtrlPb.ApiSessionAddedSchema, {
          isFullState: isFull,
          apiSessions: ids.map((id) => ({ id, token: `token-${id}`, identityId: "i1" })),
        }),
      });
    const found = async (id: string) =>
      (await end.control.findApiSession(`token-${id}`, { timeoutMs: 10_000 }))?.id === id;
    const gone: string[] = [];
    end.control.onApiSessionRemoved(({ id }) => gone.push(id));
    await send(first, ["stale"], {}, false);
    expect(await found("stale")).toBe(true);
    await send(first, ["m"], { id: "s1", sequence: 0, isLast: false });
    expect(await found("m")).toBe(true);
    await send(second, ["a"], { id: "s1", sequence: 0, isLast: false }, isFullState);
    expect(await found("a")).toBe(true);
    await send(first, ["z"], { id: "s1", sequence: 1, isLast: true });
    expect(await found("z")).toBe(true);
    await expect.poll(() => gone).toEqual(["stale"]);
    expect(await found("a")).toBe(true);
  });
});

describe("when the controller that is asked goes before it answers", () => {
  it("another one builds the circuit", async () => {
    first.on(EdgeCtrlType.CreateCircuitV2Request, dies);
    second.on(EdgeCtrlType.CreateCircuitV2Request, (message, channel) => {
      const headers = new Headers()
        .setString(CreateCircuitHeader.ResponseCircuitId, "c1")
        .setString(CreateCircuitHeader.ResponseAddress, "a1");
      channel.reply(message, { contentType: EdgeCtrlType.CreateCircuitV2Response, headers });
    });
    await connect();
    const made = await end.control.createCircuit({
      ...{ sessionToken: "st", apiSessionToken: "at", fingerprints: [], peerData: new Map(), timeoutMs: 10_000 },
    });
    expect(made).toMatchObject({ circuitId: "c1", controllerId: "ctrl2" });
    expect(first.received.some(({ contentType }) => contentType === EdgeCtrlType.CreateCircuitV2Request)).toBe(true);
  });

  it("another one creates the terminator, under the same id, and changes it", async () => {
    first.on(EdgeCtrlType.CreateTerminatorV2Request, dies);
    second.on(EdgeCtrlType.CreateTerminatorV2Request, (message, channel) => {
      const { address: terminatorId } = decodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, message.body);
      const body = encodeControl(edgeCtrlPb.CreateTerminatorV2ResponseSchema, { terminatorId, result: 0 });
      channel.reply(message, { contentType: EdgeCtrlType.CreateTerminatorV2Response, body });
    });
    await connect();
    const credentials = { sessionToken: "st", apiSessionToken: "at", fingerprints: [] };
    const kept = { address: "t1", cost: 7, precedence: Precedence.Default, peerData: new Map() };
    expect(await end.control.createTerminator({ ...kept, ...credentials })).toMatchObject({ terminatorId: "t1" });
    end.controllers.resume(formatAddress(first.address));
    await expect.poll(() => end.controllers.all()).toHaveLength(2);
    end.controllers.byId("ctrl1")?.heard(1, performance.now());
    first.on(EdgeCtrlType.UpdateTerminatorRequest, dies);
    second.on(EdgeCtrlType.UpdateTerminatorRequest, (message, channel) =>
      channel.reply(message, { contentType: EdgeCtrlType.UpdateTerminatorResponse }),
    );
    await end.control.updateTerminator({ terminatorId: "t1", ...credentials, cost: 9 });
  });
});

/** A controller that answers requests, or hangs, while its connection stays open. */
describe("when the controller that is asked hangs", () => {
  const dial = { sessionToken: "st", apiSessionToken: "at", fingerprints: [], peerData: new Map(), timeoutMs: 10_000 };
  const V2 = EdgeCtrlType.CreateCircuitV2Request;
  const circuit = (id: string) => ({
    contentType: EdgeCtrlType.CreateCircuitV2Response,
    headers: new Headers()
      .setString(CreateCircuitHeader.ResponseCircuitId, id)
      .setString(CreateCircuitHeader.ResponseAddress, `a-${id}`),
  });
  const builds = (controller: ScriptedController, id: string): void =>
    controller.on(V2, (message, channel) => channel.reply(message, circuit(id)));
  const answersHeartbeats = async (controller: ScriptedController) =>
    (await controller.channel()).enableHeartbeats({ sendIntervalMs: 60_000, checkIntervalMs: 60_000 });
  const asked = (controller: ScriptedController, type: number = V2) =>
    controller.received.filter(({ contentType }) => contentType === type).length;

  it("another one builds the circuit, and is asked first until the first answers again", async () => {
    await connect();
    await answersHeartbeats(second);
    builds(second, "c2");
    expect(await end.control.createCircuit(dial)).toMatchObject({ circuitId: "c2", controllerId: "ctrl2" });
    const hanging = end.controllers.byId("ctrl1")!;
    expect(end.controllers.isResponsive(hanging)).toBe(false);
    end.controllers.byId("ctrl2")?.heard(20, performance.now());
    await end.control.createCircuit(dial);
    expect([asked(first), asked(second)]).toEqual([1, 2]);
    await answersHeartbeats(first);
    builds(first, "c1");
    expect(await hanging.channel.probe(10_000)).toBe(true);
    hanging.heard(1, performance.now());
    expect(await end.control.createCircuit(dial)).toMatchObject({ circuitId: "c1" });
  });

  it("what it builds when it goes on is given up, whatever it was asked by", async () => {
    const givenUp: string[] = [];
    giveUpLateCircuits(
      end.controllers,
      ({ circuitId, address }) => givenUp.push(`${circuitId} ${address}`),
      silentLogger,
    );
    await connect();
    await answersHeartbeats(second);
    builds(second, "c2");
    await end.control.createCircuit(dial);
    const channel = await first.channel();
    channel.reply(await first.next(V2), circuit("late"));
    const { CreateCircuitResponseSchema, CreateTunnelCircuitV2ResponseSchema } = edgeCtrlPb;
    const older = encodeControl(CreateCircuitResponseSchema, { circuitId: "old", address: "a-old" });
    channel.send({ contentType: EdgeCtrlType.CreateCircuitResponse, body: older });
    const tunnel = encodeControl(CreateTunnelCircuitV2ResponseSchema, { circuitId: "tun", address: "a-tun" });
    channel.send({ contentType: EdgeCtrlType.CreateTunnelCircuitV2Response, body: tunnel });
    const headers = new Headers().setString(ControlHeader.CircuitSuccessAddress, "a-plain");
    channel.send({ contentType: ControlType.CircuitSuccess, headers, body: Buffer.from("plain") });
    await expect.poll(() => givenUp).toEqual(["late a-late", "old a-old", "tun a-tun", "plain a-plain"]);
  });

  it("another one creates the terminator, under the same id", async () => {
    await connect();
    await answersHeartbeats(second);
    second.on(EdgeCtrlType.CreateTerminatorV2Request, (message, channel) => {
      const { address: terminatorId } = decodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, message.body);
      const body = encodeControl(edgeCtrlPb.CreateTerminatorV2ResponseSchema, { terminatorId, result: 0 });
      channel.reply(message, { contentType: EdgeCtrlType.CreateTerminatorV2Response, body });
    });
    const kept = { address: "t1", cost: 7, precedence: Precedence.Default, peerData: new Map() };
    const answer = await end.control.createTerminator({
      ...kept,
      sessionToken: "st",
      apiSessionToken: "at",
      fingerprints: [],
    });
    expect(answer).toMatchObject({ terminatorId: "t1", result: 0 });
    expect(asked(first, EdgeCtrlType.CreateTerminatorV2Request)).toBe(1);
  });

  it("the data model comes from another one", async () => {
    first.capabilities = second.capabilities = capabilityMask([1, 2, 3, ControllerCapability.RouterDataModel]);
    end.control.startTunnel({ servicePollMs: 60_000 });
    await end.connect();
    await first.next(EdgeCtrlType.SubscribeToDataModel);
    await connect();
    await answersHeartbeats(second);
    builds(second, "c2");
    await end.control.createCircuit(dial);
    await second.next(EdgeCtrlType.SubscribeToDataModel);
    expect(asked(first, EdgeCtrlType.SubscribeToDataModel)).toBe(1);
  });

  it("it keeps the request while no other one answers either", async () => {
    await connect();
    first.on(V2, async (message, channel) => {
      await pause(2_500);
      channel.reply(message, circuit("c1"));
    });
    expect(await end.control.createCircuit(dial)).toMatchObject({ circuitId: "c1" });
    expect(asked(second)).toBe(0);
  });

  it("many requests that wait for a busy one cost it four heartbeats a second", async () => {
    await connect();
    await answersHeartbeats(first);
    await answersHeartbeats(second);
    let heartbeats = 0;
    (await first.channel()).observer = ({ isReceived, contentType }) => {
      if (isReceived && contentType === BaseType.Heartbeat) heartbeats++;
    };
    const answer = Promise.withResolvers<void>();
    // The other one is asked as well when it becomes the faster one.
    for (const each of [first, second]) {
      each.on(V2, async (message, channel) => {
        await answer.promise;
        channel.reply(message, circuit("c1"));
      });
    }
    const began = performance.now();
    const dials: Promise<unknown>[] = [];
    for (let n = 0; n < 40; n++) {
      dials.push(end.control.createCircuit({ ...dial, timeoutMs: 60_000 }));
      await pause(30);
    }
    await pause(500);
    answer.resolve();
    await Promise.all(dials);
    expect(heartbeats).toBeGreaterThan(1);
    expect(heartbeats).toBeLessThan((performance.now() - began) / 250 + 2);
  }, 60_000);

  it("a busy one is not taken for it", async () => {
    await connect();
    await answersHeartbeats(first);
    await answersHeartbeats(second);
    first.on(V2, async (message, channel) => {
      await pause(2_500);
      channel.reply(message, circuit("c1"));
    });
    expect(await end.control.createCircuit(dial)).toMatchObject({ circuitId: "c1" });
    expect(asked(second)).toBe(0);
    expect(end.controllers.isResponsive(end.controllers.byId("ctrl1")!)).toBe(true);
  });
});

describe("of circuits whose controller is away", () => {
  const beSuccessor = (): void => {
    second.capabilities = capabilityMask([1, 2, 3, ControllerCapability.CircuitSuccession]);
  };

  it("one that answers for others is told, and whose they are; an unforwardable circuit is not called known", async () => {
    beSuccessor();
    await connect();
    end.control.sendFault({ subject: FaultSubject.EgressFault, ids: ["c1"], controllerId: "gone" });
    expect(await faultOf()).toMatchObject({ subject: FaultSubject.EgressFault, id: "c1", owner: "gone" });
    end.control.sendFault({ subject: FaultSubject.ForwardFault, ids: ["c1", "c2"], controllerId: "gone" });
    const unknown = { subject: FaultSubject.UnknownOwnerForwardFault, id: "c1 c2", owner: "gone" };
    expect(await faultOf()).toMatchObject(unknown);
    end.control.confirmCircuits("gone", new Map([["c1", 61_000]]));
    const asked = await second.next(ControlType.CircuitConfirmation);
    expect(asked.headers.getString(ControlHeader.CircuitOwner)).toBe("gone");
    expect(decodeControl(ctrlPb.CircuitConfirmationSchema, asked.body).circuitIds).toEqual(["c1"]);
  });

  it("the owner alone is told when it is there", async () => {
    beSuccessor();
    await connect();
    end.control.sendFault({ subject: FaultSubject.IngressFault, ids: ["c1"], controllerId: "ctrl1" });
    const { headers } = await first.next(ControlType.Fault);
    expect(headers.has(ControlHeader.CircuitOwner)).toBe(false);
    end.control.sendFault({ subject: FaultSubject.IngressFault, ids: ["c2"], controllerId: "ctrl2" });
    expect(await faultOf()).toMatchObject({ id: "c2", owner: undefined });
  });

  it("those of OpenZiti are told nothing: they would end what they do not know", async () => {
    await connect();
    end.control.sendFault({ subject: FaultSubject.EgressFault, ids: ["c1"], controllerId: "gone" });
    end.control.confirmCircuits("gone", new Map([["c1", 61_000]]));
    end.control.sendFault({ subject: FaultSubject.LinkFault, ids: ["l1"] });
    expect(await faultOf()).toMatchObject({ id: "l1" });
    await first.next(ControlType.Fault);
    const types = [...first.received, ...second.received].map(({ contentType }) => contentType);
    expect(types.filter((type) => type === ControlType.Fault)).toHaveLength(2);
    expect(types).not.toContain(ControlType.CircuitConfirmation);
  });
});
