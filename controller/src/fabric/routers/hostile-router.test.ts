import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  BaseType,
  ControlHeader,
  ControlType,
  ctrlPb,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
} from "@sallyport/wire";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, TestFabric } from "../testing/test-fabric.ts";

let net: TestFabric;
let log: RecordingLogger;
let evil: ScriptedRouter;
beforeEach(async () => {
  log = new RecordingLogger();
  net = await TestFabric.start({}, log);
  evil = await net.connect("evil");
});
afterEach(async () => {
  vi.restoreAllMocks();
  await net.stop();
});

const warnings = (msg: string) => log.entries.filter((line) => line.level === "warn" && line.msg === msg);

/** A body of `count` empty texts or messages with a number that is 1 if not given. */
const emptyFields = (count: number, number = 1) => Buffer.alloc(2 * count, Buffer.from([(number << 3) | 2, 0]));

describe("a router that an attacker has broken into", () => {
  test.each([
    ["circuits to confirm", ControlType.CircuitConfirmation],
    ["terminators to remove", ControlType.RemoveTerminatorsRequest],
    ["interfaces", ControlType.RouterInterfacesUpdate],
    ["API sessions", EdgeCtrlType.ApiSessionHeartbeat],
    ["sessions", EdgeCtrlType.ValidateSessionsRequest],
    ["questions", ControlType.InspectRequest],
    ["alerts", ControlType.Alerts],
    ["link listeners", ControlType.UpdateLinkListeners],
  ])("has a message with a million %s dropped before it is decoded", async (_, contentType) => {
    evil.send(contentType, emptyFields(1_000_000));
    await evil.roundTrip();
    expect(warnings("a router's message cannot be decoded and is dropped")).toEqual([
      expect.objectContaining({
        fields: expect.objectContaining({
          contentType,
          reason: expect.stringContaining("more than 200000 fields"),
        }),
      }),
    ]);
  });

  test.each([
    ["links", ControlType.RouterLinks],
    ["alerts", ControlType.Alerts],
    ["members of a cluster", ControlType.RequestClusterMembers],
    ["link listeners", ControlType.UpdateLinkListeners],
    ["a circuit by access token", EdgeCtrlType.CreateCircuitV3Request],
    ["a subscription", EdgeCtrlType.SubscribeToDataModel],
    ["sessions", EdgeCtrlType.ValidateSessionsRequest],
  ])("sends garbage for %s, and what it says next is understood", async (_, contentType) => {
    const headers = new Headers();
    for (const key of [10, 11, 12, 13, 14, 15, 16, 17, 1026]) headers.set(key, Buffer.of(0xff, 0xfe));
    for (let seed = 0; seed < 50; seed++) {
      const garbage = Buffer.from(Array.from({ length: seed }, (_, i) => (seed * 31 + i * 97) & 0xff));
      evil.send(contentType, garbage, headers);
    }
    await evil.roundTrip();
    expect(net.fabric.onlineRouterIds()).toEqual(["evil"]);
    expect(log.entries.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("may report ten thousand links with several connections each, and no million", async () => {
    const conns = Array(5).fill({ type: "link.default", localAddr: "10.0.0.1:1", remoteAddr: "10.0.0.2:2" });
    const links = Array.from({ length: 10_000 }, (_, i) => {
      return { id: `l${i}`, destRouterId: "a", linkProtocol: "tls", iteration: 1, connState: { conns } };
    });
    evil.send(ControlType.RouterLinks, encodeControl(ctrlPb.RouterLinksSchema, { links }));
    await evil.roundTrip();
    expect(net.fabric.links()).toHaveLength(10_000);
    evil.send(ControlType.RouterLinks, emptyFields(1_000_001));
    await evil.roundTrip();
    expect(warnings("a router's message cannot be decoded and is dropped")).toHaveLength(1);
  });

  test("has as many links of one report looked at as it may have", async () => {
    const events: string[] = [];
    net.fabric.onEvent(({ kind }) => events.push(kind));
    const link = { id: "l1", destRouterId: "a", linkProtocol: "tls", iteration: 1 };
    evil.send(ControlType.RouterLinks, encodeControl(ctrlPb.RouterLinksSchema, { links: Array(10_100).fill(link) }));
    await evil.roundTrip();
    expect(events.filter((kind) => kind === "link-connected" || kind === "link-known")).toHaveLength(10_000);
    expect(
      warnings("the router reports links of others, too many, or such with too long texts; they are ignored"),
    ).toEqual([expect.objectContaining({ fields: { source: "evil", refused: 100 } })]);
  });

  test("has ten thousand faults of one message looked at, and no answer as long as it likes", async () => {
    const { ForwardFault } = ctrlPb.FaultSubject;
    const told = (id: string) =>
      evil.send(ControlType.Fault, encodeControl(ctrlPb.FaultSchema, { subject: ForwardFault, id }));
    // Until the controller knows that the router has no circuits of its former life.
    await eventually(() => {
      told("c");
      expect(evil.pending(ControlType.Unroute)).not.toEqual([]);
    });
    await evil.roundTrip();
    const before = evil.pending(ControlType.Unroute).length;
    told("c ".repeat(10_100));
    const attempt = new Headers().setU32(ControlHeader.RouteResultAttempt, 1);
    evil.send(ControlType.RouteResult, Buffer.alloc(1_000, "c"), attempt);
    await evil.roundTrip();
    expect(evil.pending(ControlType.Unroute)).toHaveLength(before + 10_000);
  });

  test("has what it leaves unfinished bounded in bytes: requests beyond that are answered as busy", async () => {
    const bound = Promise.withResolvers<never>();
    net.model.authorizeBind = () => bound.promise;
    const peerData = { 1: Buffer.alloc(15_000_000) };
    const body = encodeControl(edgeCtrlPb.CreateTerminatorRequestSchema, { sessionToken: "s", peerData });
    for (let i = 0; i < 5; i++) {
      evil.send(EdgeCtrlType.CreateTerminatorRequest, body);
      await evil.roundTrip();
    }
    const refusal = await evil.next(EdgeCtrlType.Error);
    expect(refusal.body.toString()).toBe("server too busy");
    bound.reject(new Error("over"));
  });

  test("has its answer to an inspection refused when it would take too much to decode", async () => {
    evil.channel.handle(ControlType.InspectRequest, (message) =>
      evil.channel.reply(message, { contentType: ControlType.InspectResponse, body: emptyFields(1_100_000, 3) }),
    );
    const { errors } = await net.fabric.inspect({ appRegex: "evil", requestedValues: ["links"] });
    expect(errors.join()).toContain("more than 1000000 fields");
  });

  test("is read later when its messages take more time than one router's may", async () => {
    let spent = 0;
    vi.spyOn(process, "threadCpuUsage").mockImplementation(() => ({ user: spent * 1_000, system: 0 }));
    // Working on a link takes so long.
    net.fabric.onEvent(({ kind }) => {
      if (kind === "link-connected") spent += 2_400;
    });
    const report = (id: string) =>
      encodeControl(ctrlPb.RouterLinksSchema, { links: [{ id, destRouterId: "a", iteration: 1 }] });
    evil.send(ControlType.RouterLinks, report("l1"));
    await eventually(() =>
      expect(warnings("the router's messages take too much time; it is read later")).toHaveLength(1),
    );
    // It is read again afterwards.
    await evil.roundTrip();
  });

  test("gets no new allowance with a new connection", async () => {
    let spent = 0;
    vi.spyOn(process, "threadCpuUsage").mockImplementation(() => ({ user: spent * 1_000, system: 0 }));
    net.fabric.onEvent(({ kind }) => {
      if (kind === "link-connected") spent += 1_500;
    });
    const report = (id: string) =>
      encodeControl(ctrlPb.RouterLinksSchema, { links: [{ id, destRouterId: "a", iteration: 1 }] });
    evil.send(ControlType.RouterLinks, report("l1"));
    await evil.roundTrip();
    evil.close();
    await eventually(() => expect(net.fabric.onlineRouterIds()).toEqual([]));
    evil = await net.connect("evil");
    evil.send(ControlType.RouterLinks, report("l2"));
    // The place of a connection that is still there is taken over with what it owes.
    evil = await net.connect("evil");
    await eventually(() =>
      expect(warnings("the router's messages take too much time; it is read later")).toHaveLength(1),
    );
  });

  test.each([
    ["ping", BaseType.Ping],
    ["latency", BaseType.Latency],
    ["quiesce", ControlType.QuiesceRouter],
    ["dequiesce", ControlType.DequiesceRouter],
    ["trace", ControlType.TraceEvent],
    ["circuit", EdgeCtrlType.CreateCircuitV2Request],
    ["circuit by access token", EdgeCtrlType.CreateCircuitV3Request],
    ["members of a cluster", ControlType.RequestClusterMembers],
    ["route result", ControlType.RouteResult],
    ["list of services", EdgeCtrlType.ListServicesRequest],
    ["removed terminator", EdgeCtrlType.RemoveTunnelTerminatorRequest],
    ["health", EdgeCtrlType.TunnelHealthEvent],
  ])("has the time of messages without a protobuf body counted: %s", async (_, contentType) => {
    let spent = 0;
    vi.spyOn(process, "threadCpuUsage").mockImplementation(() => {
      spent += 2_400_000;
      return { user: spent, system: 0 };
    });
    evil.send(contentType, Buffer.alloc(0));
    await eventually(() =>
      expect(warnings("the router's messages take too much time; it is read later")).toHaveLength(1),
    );
  });
});

test("all of a router's messages are handled by what counts their time", () => {
  const fabric = join(import.meta.dirname, "..");
  const files = globSync("**/*.ts", { cwd: fabric, exclude: ["**/*.test.ts", "testing/**"] });
  const bare = files.filter((file) => /channel\s*\.handle(Other)?\(/.test(readFileSync(join(fabric, file), "utf8")));
  expect(bare).toEqual(["routers/inbound.ts"]);
});
