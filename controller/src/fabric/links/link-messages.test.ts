import { ControlType, ctrlPb, decodeControl, encodeControl, metricsPb } from "@sallyport/wire";
import { afterEach, describe, expect, test } from "vitest";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, TestFabric } from "../testing/test-fabric.ts";

let net: TestFabric;
afterEach(() => net.stop());

function reportLink(router: ScriptedRouter, id: string, destination: string, iteration = 1): void {
  const link = {
    id,
    destRouterId: destination,
    linkProtocol: "tls",
    dialAddress: `tls:${destination}.example:3022`,
    iteration,
    connState: { stateIteration: 1, conns: [{ type: "link.default", localAddr: "l", remoteAddr: "r" }] },
  };
  router.send(ControlType.RouterLinks, encodeControl(ctrlPb.RouterLinksSchema, { links: [link] }));
}

function reportLatency(router: ScriptedRouter, link: string, ms: number, sourceId = router.id): void {
  const body = encodeControl(metricsPb.MetricsMessageSchema, {
    sourceId,
    histograms: { [`link.${link}.latency`]: { mean: ms * 1e6 }, [`link.${link}.queue_time`]: { mean: 500_000 } },
  });
  router.send(ControlType.Metrics, body);
}

const fault = (subject: ctrlPb.FaultSubject, id: string, iteration = 0) =>
  encodeControl(ctrlPb.FaultSchema, { subject, id, iteration });

describe("links", () => {
  test("a reported link is listed at the initial cost; each end's metrics lower it", async () => {
    net = await TestFabric.start();
    const a = await net.connect("a");
    const b = await net.connect("b");
    a.send(ControlType.RouterLinks);
    reportLink(a, "l1", "b");
    await a.roundTrip();
    expect(net.fabric.links()).toMatchObject([
      { id: "l1", source: "a", destination: "b", protocol: "tls", state: "connected", cost: 130_001, iteration: 1 },
    ]);
    reportLatency(a, "l1", 3);
    reportLatency(b, "l1", 4);
    reportLatency(b, "l1", 4000, "a");
    await Promise.all([a.roundTrip(), b.roundTrip()]);
    expect(net.fabric.links()[0]?.cost).toBe(1 + 3 + 4);
  });

  test("a link state counts for the known iteration only", async () => {
    net = await TestFabric.start();
    const a = await net.connect("a");
    reportLink(a, "l1", "b", 2);
    const update = (linkIteration: number, stateIteration: number, type: string) =>
      a.send(
        ControlType.LinkStateUpdate,
        encodeControl(ctrlPb.LinkStateUpdateSchema, {
          linkId: "l1",
          linkIteration,
          connState: { stateIteration, conns: [{ type, localAddr: "", remoteAddr: "" }] },
        }),
      );
    update(1, 5, "old");
    update(2, 2, "new");
    update(2, 1, "late");
    a.send(
      ControlType.LinkStateUpdate,
      encodeControl(ctrlPb.LinkStateUpdateSchema, { linkId: "l1", linkIteration: 2 }),
    );
    await a.roundTrip();
    expect(net.fabric.links()[0]?.connectionState.connections.map((c) => c.type)).toEqual(["new"]);
  });

  test.each([
    ["LinkFault", ctrlPb.FaultSubject.LinkFault],
    ["LinkDuplicate", ctrlPb.FaultSubject.LinkDuplicate],
  ])("a %s of one end closes the other", async (_name, subject) => {
    net = await TestFabric.start();
    const a = await net.connect("a");
    const b = await net.connect("b");
    reportLink(a, "l1", "b", 3);
    await a.roundTrip();
    b.send(ControlType.Fault, fault(subject, "l1", 2));
    b.send(ControlType.Fault, fault(subject, "unknown", 2));
    await b.roundTrip();
    expect(net.fabric.links()[0]?.state).toBe("connected");
    b.send(ControlType.Fault, fault(subject, "l1", 3));
    const told = decodeControl(ctrlPb.FaultSchema, (await a.next(ControlType.Fault)).body);
    expect(told).toMatchObject({ subject: ctrlPb.FaultSubject.LinkFault, id: "l1", iteration: 3 });
    expect(net.fabric.links()[0]?.state).toBe("failed");
    reportLink(a, "l1", "b", 4);
    await a.roundTrip();
    expect(net.fabric.links()[0]).toMatchObject({ state: "connected", iteration: 4 });
  });

  test("an administrator removes a link: both ends close it", async () => {
    net = await TestFabric.start();
    const a = await net.connect("a");
    const b = await net.connect("b");
    reportLink(a, "l1", "b");
    await a.roundTrip();
    expect(net.fabric.removeLink("l1")).toBe(true);
    for (const router of [a, b]) {
      const told = decodeControl(ctrlPb.FaultSchema, (await router.next(ControlType.Fault)).body);
      expect(told).toMatchObject({ subject: ctrlPb.FaultSubject.LinkFault, id: "l1" });
    }
    expect(net.fabric.links()).toEqual([]);
    expect(net.fabric.removeLink("l1")).toBe(false);
    expect(await net.fabric.updateLink("l1", { isDown: true })).toBeUndefined();
  });

  test("a link removed at another controller is forgotten without a word to its ends", async () => {
    net = await TestFabric.start();
    const a = await net.connect("a");
    await net.connect("b");
    reportLink(a, "l1", "b");
    await a.roundTrip();
    net.fabric.forgetLink("l1");
    net.fabric.forgetLink("l1");
    expect(net.fabric.links()).toEqual([]);
    await a.roundTrip();
    expect(a.pending(ControlType.Fault)).toEqual([]);
  });

  test("links a router dialed outlive a short loss of its channel, not a restart", async () => {
    net = await TestFabric.start();
    const a = await net.connect("a");
    reportLink(a, "l1", "b");
    await a.roundTrip();
    a.close();
    const again = await net.connect("a", { previousConnection: a.channel.connectionId });
    await again.roundTrip();
    expect(net.fabric.links()).toHaveLength(1);
    const restarted = await net.connect("a");
    await restarted.roundTrip();
    expect(net.fabric.links()).toEqual([]);
  });

  test("links of a router that stays away are forgotten", async () => {
    net = await TestFabric.start({ reconnectGraceMs: 20 });
    const a = await net.connect("a");
    reportLink(a, "l1", "b");
    await a.roundTrip();
    a.close();
    await eventually(() => expect(net.fabric.links()).toEqual([]));
  });

  test("a report of all links of a router ends its others, and none of another router", async () => {
    net = await TestFabric.start();
    const a = await net.connect("a");
    const b = await net.connect("b");
    for (const id of ["l1", "l2"]) reportLink(a, id, "b");
    reportLink(b, "l3", "a");
    await Promise.all([a.roundTrip(), b.roundTrip()]);
    const links = [{ id: "l2", destRouterId: "b", linkProtocol: "tls", iteration: 1 }];
    a.send(ControlType.RouterLinks, encodeControl(ctrlPb.RouterLinksSchema, { links, fullRefresh: true }));
    const told = decodeControl(ctrlPb.FaultSchema, (await b.next(ControlType.Fault)).body);
    expect(told).toMatchObject({ subject: ctrlPb.FaultSubject.LinkFault, id: "l1" });
    const states = net.fabric.links().map(({ id, state }) => `${id} ${state}`);
    expect(states.toSorted()).toEqual(["l1 failed", "l2 connected", "l3 connected"]);
    // It comes back with its next iteration.
    reportLink(a, "l1", "b", 2);
    await a.roundTrip();
    expect(net.fabric.link("l1")).toMatchObject({ state: "connected", iteration: 2 });
    expect(b.pending(ControlType.Fault)).toEqual([]);
  });

  test("ten thousand links are ended by one report of all links", async () => {
    net = await TestFabric.start();
    const a = await net.connect("a");
    const links = Array.from({ length: 10_000 }, (_, i) => ({ id: `l${i}`, destRouterId: "b", iteration: 1 }));
    a.send(ControlType.RouterLinks, encodeControl(ctrlPb.RouterLinksSchema, { links, fullRefresh: true }));
    await a.roundTrip();
    expect(net.fabric.links().filter(({ state }) => state === "connected")).toHaveLength(10_000);
    const rest = links.slice(0, 1);
    a.send(ControlType.RouterLinks, encodeControl(ctrlPb.RouterLinksSchema, { links: rest, fullRefresh: true }));
    await a.roundTrip();
    expect(net.fabric.links().filter(({ state }) => state === "connected")).toMatchObject(
      rest.map(({ id }) => ({ id })),
    );
  });

  test("a report of a superseded channel is ignored", async () => {
    net = await TestFabric.start();
    const a = await net.connect("a");
    const again = await net.connect("a", { previousConnection: a.channel.connectionId });
    if (!a.channel.isClosed) reportLink(a, "l1", "b");
    await again.roundTrip();
    expect(net.fabric.links()).toEqual([]);
  });
});

describe("verification of a dialing router", () => {
  test.each([
    ["the right fingerprint", {}, "own", true, /^router verified$/],
    ["another fingerprint", {}, "other", false, /not its own/],
    ["a disabled router", { isDisabled: true }, "own", false, /disabled/],
  ])("%s", async (_name, extra, which, ok, text) => {
    net = await TestFabric.start();
    const a = await net.connect("a");
    const b = await net.enroll("b", extra);
    const fingerprints = [which === "own" ? b.leafFingerprint : "00".repeat(20)];
    const body = encodeControl(ctrlPb.VerifyRouterSchema, { routerId: "b", fingerprints });
    const answer = await a.request({ contentType: ControlType.VerifyRouter, body });
    expect(answer.contentType).toBe(2);
    expect(answer.headers.getBool(2)).toBe(ok);
    expect(answer.body.toString()).toMatch(text);
  });

  test("an unknown router", async () => {
    net = await TestFabric.start();
    const a = await net.connect("a");
    const body = encodeControl(ctrlPb.VerifyRouterSchema, { routerId: "ghost", fingerprints: [] });
    const answer = await a.request({ contentType: ControlType.VerifyRouter, body });
    expect(answer.headers.getBool(2)).toBe(false);
  });
});
