import {
  ControlHeader,
  ControlType,
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  Precedence,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ScriptedController, testControllers } from "../../testing/scripted-controller.ts";
import { Control } from "../control.ts";
import type { Controllers } from "../controllers/controllers.ts";
import { NoControllerError } from "../errors.ts";
import type { TunnelControl } from "./tunnel-control.ts";
import type { TunnelIdentity } from "./tunnel-identity.ts";

let controller: ScriptedController;
let controllers: Controllers;
let control: Control;
let tunnel: TunnelControl;
let identities: (TunnelIdentity | undefined)[];

const DIAL = { serviceName: "web", instanceId: "i1", peerData: new Map([[1011, Buffer.from("{}")]]), timeoutMs: 5000 };
const TERMINATOR = { address: "t1", serviceId: "s1", serviceName: "web", cost: 4, precedence: Precedence.Required };

const start = async (capabilities: number): Promise<void> => {
  controller.capabilities = capabilities;
  controllers.setEndpoints([controller.address]);
  const connected = new Promise<void>((resolve) => controllers.onConnected(() => resolve()));
  tunnel = control.startTunnel({ servicePollMs: 20 });
  tunnel.onIdentity((identity) => identities.push(identity));
  await connected;
};
const until = async (condition: () => boolean): Promise<void> => {
  while (!condition()) await new Promise(setImmediate);
};
const refuse = (code: number, text: string) => ({
  contentType: EdgeCtrlType.Error,
  headers: new Headers().setU32(EdgeCtrlHeader.ErrorCode, code),
  body: Buffer.from(text),
});

beforeEach(async () => {
  identities = [];
  const authority = await TestAuthority.create();
  controller = await ScriptedController.start(await authority.identity("ctrl1"));
  controllers = testControllers(await authority.identity("r1"));
  control = new Control({
    hasEdgeListener: false,
    ...{ routerId: "r1", controllers, log: silentLogger, edgeAddresses: () => [], heartbeatIntervalMs: 60_000 },
    validate: { chunkSize: 2, minPauseMs: 0, maxPauseMs: 1 },
    connectEvents: { enabled: false, batchIntervalMs: 10, fullSyncIntervalMs: 60_000 },
    rateLimited: { workers: 5, queueLength: 100 },
  });
});

afterEach(async () => {
  control.close();
  controllers.stop();
  await controller.close();
});

it("dials wait for a controller as long as they may", async () => {
  controller.capabilities = 0x1e;
  controller.on(EdgeCtrlType.CreateTunnelCircuitV2Request, (message, channel) => {
    const body = encodeControl(edgeCtrlPb.CreateTunnelCircuitV2ResponseSchema, { circuitId: "c1", address: "x1" });
    channel.reply(message, { contentType: EdgeCtrlType.CreateTunnelCircuitV2Response, body });
  });
  controller.on(ControlType.CircuitRequest, (message, channel) => {
    const headers = new Headers().setString(ControlHeader.CircuitSuccessAddress, "x2");
    channel.reply(message, { contentType: ControlType.CircuitSuccess, headers, body: Buffer.from("c2") });
  });
  tunnel = control.startTunnel({ servicePollMs: 20 });
  await expect(tunnel.createCircuit({ ...DIAL, timeoutMs: 20 })).rejects.toThrow(NoControllerError);
  await expect(control.createPlainCircuit({ service: "web", timeoutMs: 20 })).rejects.toThrow(NoControllerError);
  const waiting = [tunnel.createCircuit(DIAL), control.createPlainCircuit({ service: "web", timeoutMs: 5000 })];
  controllers.setEndpoints([controller.address]);
  expect(await Promise.all(waiting)).toMatchObject([{ circuitId: "c1" }, { circuitId: "c2", address: "x2" }]);
});

describe("at a controller with the data model", () => {
  beforeEach(() => start(0x1e));

  it("the answer to the edge hello says that the data model is followed: the peer's sends no changes else", async () => {
    const body = encodeControl(edgeCtrlPb.ServerHelloSchema, { version: "v1.6.20" });
    const headers = new Headers().setBool(EdgeCtrlHeader.DataModel, true);
    const channel = await controller.channel();
    const reply = await channel.request({ contentType: EdgeCtrlType.ServerHello, headers, body });
    expect(reply.contentType).toBe(EdgeCtrlType.ClientHello);
    expect(reply.headers.getBool(EdgeCtrlHeader.DataModel)).toBe(true);
  });

  it("a dial is 20220 by service name, and refused in the controller's words", async () => {
    controller.on(EdgeCtrlType.CreateTunnelCircuitV2Request, (message, channel) => {
      const request = decodeControl(edgeCtrlPb.CreateTunnelCircuitV2RequestSchema, message.body);
      if (request.serviceName !== "web") return channel.reply(message, refuse(14, "access denied"));
      expect(request).toMatchObject({ terminatorInstanceId: "i1", peerData: { 1011: Buffer.from("{}") } });
      const body = encodeControl(edgeCtrlPb.CreateTunnelCircuitV2ResponseSchema, {
        ...{ circuitId: "c1", address: "x1", peerData: { 1003: Buffer.from("key") }, tags: { serviceId: "s1" } },
      });
      return channel.reply(message, { contentType: EdgeCtrlType.CreateTunnelCircuitV2Response, body });
    });
    const circuit = await tunnel.createCircuit(DIAL);
    expect(circuit).toMatchObject({ circuitId: "c1", address: "x1", controllerId: "ctrl1" });
    expect(circuit.peerData.get(1003)?.toString()).toBe("key");
    await expect(tunnel.createCircuit({ ...DIAL, serviceName: "other" })).rejects.toThrow("access denied");
  });

  it("a terminator is 20413 by service id, asked for again when refused, renamed when it is another's", async () => {
    const answers: edgeCtrlPb.CreateTerminatorResult[] = [3, 2, 0];
    controller.on(EdgeCtrlType.CreateTunnelTerminatorV2Request, (message, channel) => {
      const { address, serviceId, cost } = decodeControl(
        edgeCtrlPb.CreateTunnelTerminatorV2RequestSchema,
        message.body,
      );
      expect({ serviceId, cost }).toEqual({ serviceId: "s1", cost: 4 });
      const result: edgeCtrlPb.CreateTerminatorResult = address === "t2" ? 1 : (answers.shift() ?? 0);
      const body = encodeControl(edgeCtrlPb.CreateTunnelTerminatorV2ResponseSchema, { terminatorId: address, result });
      channel.reply(message, { contentType: EdgeCtrlType.CreateTunnelTerminatorV2Response, body });
    });
    const lost: string[] = [];
    tunnel.onTerminatorLost((id) => lost.push(id));
    expect(await tunnel.createTerminator({ ...TERMINATOR, address: "t2" })).toMatchObject({ result: 1 });
    expect(lost).toEqual(["t2"]);
    void tunnel.createTerminator(TERMINATOR).catch(() => {});
    // Busy: again after two seconds; refused: kept for the next scan.
    await until(() => answers.length === 1);
    expect(lost).toEqual(["t2"]);
    expect(JSON.stringify(tunnel.inspect())).toContain('"id":"t1","state":"establishing"');
  });

  it("a terminator's cost is changed at the controller, and what was changed is created again; 1038 removes it", async () => {
    const created: number[] = [];
    controller.on(EdgeCtrlType.CreateTunnelTerminatorV2Request, (message, channel) => {
      const request = decodeControl(edgeCtrlPb.CreateTunnelTerminatorV2RequestSchema, message.body);
      created.push(request.cost);
      const body = encodeControl(edgeCtrlPb.CreateTunnelTerminatorV2ResponseSchema, { terminatorId: "t1", result: 0 });
      channel.reply(message, { contentType: EdgeCtrlType.CreateTunnelTerminatorV2Response, body });
    });
    controller.on(EdgeCtrlType.UpdateTunnelTerminatorRequest, (message, channel) => {
      expect(decodeControl(edgeCtrlPb.UpdateTunnelTerminatorRequestSchema, message.body)).toMatchObject({
        ...{ terminatorId: "t1", cost: 70, updateCost: true, updatePrecedence: false },
      });
      channel.reply(message, { contentType: EdgeCtrlType.UpdateTunnelTerminatorResponse });
    });
    await tunnel.createTerminator(TERMINATOR);
    await tunnel.updateTerminator("t1", { cost: 70 });
    tunnel.healthEvent("t1", true);
    const event = await controller.next(EdgeCtrlType.TunnelHealthEvent);
    expect(event.headers.getString(EdgeCtrlHeader.TerminatorId)).toBe("t1");
    expect(event.headers.getBool(EdgeCtrlHeader.CheckPassed)).toBe(true);
    tunnel.removeTerminators(["t1"]);
    const removal = await controller.next(ControlType.RemoveTerminatorsRequest);
    (await controller.channel()).replyResult(removal, true);
    expect(created).toEqual([4]);
  });
});

describe("at a controller without it", () => {
  let sessions = 0;
  const session = () => ({ sessionId: `api${++sessions}`, identityId: "r1", identityName: "router one" });

  beforeEach(() => {
    sessions = 0;
    controller.on(EdgeCtrlType.CreateApiSessionRequest, (message, channel) => {
      const { sdkInfo, configTypes } = decodeControl(edgeCtrlPb.CreateApiSessionRequestSchema, message.body);
      expect([sdkInfo?.type, configTypes]).toEqual(["ziti-router:tunnel", ["all"]]);
      const body = encodeControl(edgeCtrlPb.CreateApiSessionResponseSchema, {
        ...session(),
        ...{ defaultHostingCost: 5, serviceCosts: { s1: 6 }, appDataJson: '{"a":1}' },
      });
      channel.reply(message, { contentType: EdgeCtrlType.CreateApiSessionResponse, body });
    });
  });

  it("services come by a list, asked for with the mark of the last one", async () => {
    const marks: string[] = [];
    controller.on(EdgeCtrlType.ListServicesRequest, (message, channel) => {
      const mark = message.body.toString();
      marks.push(mark);
      if (mark === "m1") return;
      const body = encodeControl(edgeCtrlPb.ServicesListSchema, {
        lastUpdate: Buffer.from("m1"),
        services: [
          {
            ...{ id: "s1", name: "web", permissions: ["Dial", "Bind"], encryption: true },
            config: Buffer.from('{"host.v1":{"port":1}}'),
          },
        ],
      });
      channel.send({ contentType: EdgeCtrlType.ServicesList, body });
    });
    await start(0x0e);
    await until(() => marks.includes("m1"));
    expect(marks[0]).toBe("");
    expect(identities).toHaveLength(1);
    expect(identities[0]).toMatchObject({ id: "r1", name: "router one", appData: { a: 1 }, defaultCost: 5 });
    expect(identities[0]?.services.get("s1")).toMatchObject({ canDial: true, canBind: true, cost: 6 });
    expect(identities[0]?.services.get("s1")?.configs.get("host.v1")).toEqual({ port: 1 });
  });

  it("dials and terminators go by API session, a new one when the controller has forgotten it", async () => {
    const used: string[] = [];
    controller.on(EdgeCtrlType.CreateCircuitForServiceRequest, (message, channel) => {
      const { sessionId } = decodeControl(edgeCtrlPb.CreateCircuitForServiceRequestSchema, message.body);
      used.push(sessionId);
      if (sessionId === "api1") return channel.reply(message, refuse(2, "invalid api session"));
      const body = encodeControl(edgeCtrlPb.CreateCircuitForServiceResponseSchema, {
        ...{ circuitId: "c1", address: "x1", apiSession: { sessionId: "api9" } },
      });
      return channel.reply(message, { contentType: EdgeCtrlType.CreateCircuitForServiceResponse, body });
    });
    controller.on(EdgeCtrlType.CreateTunnelTerminatorRequest, (message, channel) => {
      const request = decodeControl(edgeCtrlPb.CreateTunnelTerminatorRequestSchema, message.body);
      used.push(request.sessionId);
      const body = encodeControl(edgeCtrlPb.CreateTunnelTerminatorResponseSchema, { terminatorId: request.address });
      channel.reply(message, { contentType: EdgeCtrlType.CreateTunnelTerminatorResponse, body });
    });
    await start(0x0e);
    expect(await tunnel.createCircuit(DIAL)).toMatchObject({ circuitId: "c1" });
    expect(await tunnel.createTerminator(TERMINATOR)).toMatchObject({ terminatorId: "t1", result: 0 });
    expect(used).toEqual(["api1", "api2", "api9"]);
  });

  it("a router that may not tunnel has no identity, and asks again", async () => {
    controller.on(EdgeCtrlType.CreateApiSessionRequest, (message, channel) =>
      channel.reply(message, refuse(7, "tunneling not enabled")),
    );
    await start(0x0e);
    await until(() => identities.length === 1);
    expect(identities).toEqual([undefined]);
    await expect(tunnel.createCircuit(DIAL)).rejects.toMatchObject({ edgeCode: 7 });
  });
});

describe("a plain listener's circuit", () => {
  it("is asked for by 1000, and comes with address and peer data or a text", async () => {
    await start(0x1e);
    controller.on(ControlType.CircuitRequest, (message, channel) => {
      const isKnown = message.body.includes("one@web");
      const headers = new Headers().setString(1100, "x1").set(1110, Buffer.from("a:1"));
      channel.reply(
        message,
        isKnown
          ? { contentType: ControlType.CircuitSuccess, headers, body: Buffer.from("c1") }
          : { contentType: ControlType.CircuitFailed, body: Buffer.from("no such service") },
      );
    });
    const circuit = await control.createPlainCircuit({ service: "one@web", timeoutMs: 5000 });
    expect(circuit).toMatchObject({ circuitId: "c1", address: "x1", controllerId: "ctrl1" });
    expect([...circuit.peerData]).toEqual([[1110, Buffer.from("a:1")]]);
    await expect(control.createPlainCircuit({ service: "other", timeoutMs: 5000 })).rejects.toThrow("no such service");
  });
});
