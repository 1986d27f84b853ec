import { ControlType, ctrlPb } from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import type { FabricOptions } from "../options.ts";
import { established, fault, link, meshPerTest } from "../testing/circuit-mesh.ts";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, type TestFabric } from "../testing/test-fabric.ts";
import type { CircuitPath } from "./path.ts";
import { planSmartReroutes } from "./rerouter.ts";

let net: TestFabric;
const mesh = meshPerTest((started) => {
  net = started;
});

describe("rerouting", () => {
  /** a and b with the link `ab`, and a detour over c that costs more. */
  async function square(options: Partial<FabricOptions> = {}) {
    const { a, b } = await mesh(options);
    const c = await net.connect("c");
    await link(a, c, "ac", 20);
    await link(c, b, "cb", 20);
    const { circuitId, atA, atB } = await established(a, b);
    return { a, b, c, circuitId, ingress: atA.route.forwards[0]!.srcAddress, egress: atB.route.egress!.address };
  }

  async function movedOver(routers: ScriptedRouter[], circuitId: string): Promise<ctrlPb.Route[]> {
    const routes: ctrlPb.Route[] = [];
    for (const router of routers) {
      const { message, route } = await router.nextRoute(circuitId);
      expect(route).toMatchObject({ attempt: 99_969_996, timeout: 10_000_000_000n });
      expect(route.egress).toBeUndefined();
      routes.push(route);
      router.acceptRoute(message);
    }
    return routes;
  }

  test("a lost link: the circuit moves in path order and keeps its ends", async () => {
    const { a, b, c, circuitId, ingress, egress } = await square();
    b.send(ControlType.Fault, fault(ctrlPb.FaultSubject.LinkFault, "ab", 1));
    const routes = await movedOver([a, c, b], circuitId);
    expect(routes.map((r) => r.forwards[0])).toMatchObject([
      { srcAddress: ingress, dstAddress: "ac" },
      { srcAddress: "ac", dstAddress: "cb" },
      { srcAddress: "cb", dstAddress: egress },
    ]);
    expect(net.fabric.circuit(circuitId)?.route).toEqual({
      routers: ["a", "c", "b"],
      links: ["ac", "cb"],
      ingressId: ingress,
      egressId: egress,
    });
    for (const router of [a, b, c]) {
      await router.roundTrip();
      expect(router.pending(ControlType.Unroute)).toEqual([]);
    }
  });

  test.each([
    ["a link taken down", (f: TestFabric) => void f.fabric.updateLink("ab", { isDown: true })],
    ["a link removed by an administrator", (f: TestFabric) => void f.fabric.removeLink("ab")],
    ["a link removed at another controller", (f: TestFabric) => void f.fabric.forgetLink("ab")],
  ])("%s moves its circuits", async (_name, act) => {
    const { a, b, c, circuitId } = await square();
    act(net);
    await movedOver([a, c, b], circuitId);
  });

  test("no path left: the circuit is removed at once", async () => {
    const { a, b } = await mesh();
    const { circuitId } = await established(a, b);
    a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.LinkFault, "ab", 1));
    for (const router of [a, b]) expect(await router.nextUnroute()).toMatchObject({ circuitId, now: true });
  });

  test("a forward fault moves the circuit; an unknown one is unrouted unless its owner is unknown too", async () => {
    const { a, b, circuitId } = await square();
    a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.UnknownOwnerForwardFault, "unknown1"));
    a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.ForwardFault, `unknown2 ${circuitId}`));
    expect(await a.nextUnroute()).toMatchObject({ circuitId: "unknown2", now: true });
    await movedOver([a, b], circuitId);
    expect(a.pending(ControlType.Unroute)).toEqual([]);
  });

  test("a router of the new path refuses: another path is tried, then the circuit is removed", async () => {
    const { a, b, c, circuitId } = await square();
    a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.LinkFault, "ab", 1));
    a.acceptRoute((await a.nextRoute(circuitId)).message);
    const refused = await c.nextRoute(circuitId);
    c.send(ControlType.Fault, fault(ctrlPb.FaultSubject.LinkFault, "cb", 0));
    c.refuseRoute(refused.message, 0, "link unknown");
    b.acceptRoute((await b.nextRoute(circuitId)).message);
    for (const router of [a, c, b]) expect(await router.nextUnroute()).toMatchObject({ circuitId, now: true });
  });

  test("a router that lost its channel for a moment keeps its circuits, and has them moved when it is back", async () => {
    const { a, b, c, circuitId } = await square();
    b.close();
    await eventually(() => expect(net.fabric.onlineRouterIds()).not.toContain("b"));
    a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.LinkFault, "ab", 1));
    await a.roundTrip();
    expect(net.fabric.circuits()).toHaveLength(1);
    const again = await net.connect("b", { previousConnection: b.channel.connectionId });
    await movedOver([a, c, again], circuitId);
  });

  test("a router in between that is away for a moment, too, is waited for", async () => {
    const { a, b, c, circuitId } = await square();
    b.close();
    c.close();
    await eventually(() => expect(net.fabric.onlineRouterIds()).toEqual(["a"]));
    a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.LinkFault, "ab", 1));
    await a.roundTrip();
    const b2 = await net.connect("b", { previousConnection: b.channel.connectionId });
    await b2.roundTrip();
    expect(net.fabric.circuits()).toHaveLength(1);
    const c2 = await net.connect("c", { previousConnection: c.channel.connectionId });
    await movedOver([a, c2, b2], circuitId);
  });

  test("a router that stays away loses its circuits", async () => {
    const { a, b, circuitId } = await square({ reconnectGraceMs: 50 });
    b.close();
    expect(await a.nextUnroute()).toMatchObject({ circuitId, now: true });
  });

  test("a router that comes back as a new process has lost its circuits", async () => {
    const { a, b, circuitId } = await square();
    b.close();
    await net.connect("b");
    expect(await a.nextUnroute()).toMatchObject({ circuitId, now: true });
  });

  test("a cheaper path that does not work is given up for the old one", async () => {
    const { a, b, c, circuitId } = await square({ cycleMs: 100 });
    await net.fabric.updateLink("ab", { staticCost: 10_000 });
    a.acceptRoute((await a.nextRoute(circuitId)).message);
    c.refuseRoute((await c.nextRoute(circuitId)).message, 0, "link unknown");
    await net.fabric.updateLink("ab", { staticCost: 1 });
    b.acceptRoute((await b.nextRoute(circuitId)).message);
    await movedOver([a, b], circuitId);
    await eventually(() => expect(net.fabric.circuit(circuitId)?.route.links).toEqual(["ab"]));
    for (const router of [a, b]) expect(router.pending(ControlType.Unroute)).toEqual([]);
  });

  test("several links lost together: each path that is left is tried", async () => {
    const { a, b } = await mesh();
    for (const [at, id] of ["ab2", "ab3", "ab4"].entries()) await link(a, b, id, 10 * (at + 1));
    const { circuitId } = await established(a, b);
    const { LinkFault } = ctrlPb.FaultSubject;
    a.send(ControlType.Fault, fault(LinkFault, "ab", 1));
    for (const gone of ["ab2", "ab3"]) {
      const { message, route } = await a.nextRoute(circuitId);
      expect(route.forwards[0]?.dstAddress).toBe(gone);
      a.send(ControlType.Fault, fault(LinkFault, gone, 0));
      a.refuseRoute(message, 0, "link unknown");
      b.acceptRoute((await b.nextRoute(circuitId)).message);
    }
    await movedOver([a, b], circuitId);
    await eventually(() => expect(net.fabric.circuit(circuitId)?.route.links).toEqual(["ab4"]));
  });

  test("a circuit that its routers complain about again and again while it moves is moved again, and lives", async () => {
    const { a, b, circuitId } = await square();
    const { ForwardFault } = ctrlPb.FaultSubject;
    a.send(ControlType.Fault, fault(ForwardFault, circuitId));
    for (let n = 0; n < 8; n++) {
      const atA = await a.nextRoute(circuitId);
      a.send(ControlType.Fault, fault(ForwardFault, circuitId));
      a.acceptRoute(atA.message);
      b.acceptRoute((await b.nextRoute(circuitId)).message);
    }
    await b.roundTrip();
    a.send(ControlType.Fault, fault(ForwardFault, circuitId));
    await movedOver([a, b], circuitId);
    for (const router of [a, b]) {
      await router.roundTrip();
      expect(router.pending(ControlType.Unroute)).toEqual([]);
    }
    expect(net.fabric.circuit(circuitId)).toBeDefined();
  });

  test("a disabled router carries nothing any more: what went over it moves at once, what ends there is removed", async () => {
    const { a, b, c, circuitId } = await square();
    await net.fabric.updateLink("ab", { isDown: true });
    await movedOver([a, c, b], circuitId);
    await net.fabric.updateLink("ab", { isDown: false });
    const { model } = net;
    const disable = (id: string) => {
      const record = model.routers.get(id);
      if (record !== undefined) model.routers.set(id, { ...record, isDisabled: true });
      model.emit({ kind: "router-changed", routerId: id });
    };
    disable("c");
    await movedOver([a, b], circuitId);
    disable("b");
    expect(await a.nextUnroute()).toMatchObject({ circuitId, now: true });
  });

  test("every cycle the dearest circuit moves to a clearly cheaper path", async () => {
    const { a, b, c, circuitId } = await square({ cycleMs: 100 });
    await net.fabric.updateLink("ab", { staticCost: 10_000 });
    await movedOver([a, c, b], circuitId);
    expect(net.fabric.circuit(circuitId)?.route.links).toEqual(["ac", "cb"]);
  });
});

const policy = { rerouteFraction: 0.02, rerouteCap: 4, minCostDelta: 15 };
const circuit = (id: string, link: string) => ({ id, routers: ["a", "b"], links: [link] });
const better: CircuitPath = { routers: ["a", "b"], links: ["new"], cost: 11 };
const costs: Record<string, number> = { new: 11, old: 26, same: 25, dear: 500 };
const costOf = (path: { links: readonly string[] }) => path.links.reduce((sum, id) => sum + (costs[id] ?? 0), 0);

describe("smart rerouting", () => {
  test.each([
    ["a gain of exactly the minimum counts", ["old"], ["c0"]],
    ["a smaller gain does not", ["same"], []],
    ["one circuit per cycle while there are few, the dearest first", ["old", "dear", "old"], ["c1"]],
    ["a circuit already on the best path stays", ["new"], []],
  ])("%s", (_name, links, expected) => {
    const circuits = links.map((link, i) => circuit(`c${i}`, link));
    const plan = planSmartReroutes(circuits, costOf, () => better, policy);
    expect(plan.map((p) => p.circuit.id)).toEqual(expected);
  });

  test.each([
    [100, 2],
    [199, 3],
    [1000, 4],
  ])("of %i circuits %i are moved", (count, expected) => {
    const circuits = Array.from({ length: count }, (_, i) => circuit(`c${i}`, "dear"));
    expect(planSmartReroutes(circuits, costOf, () => better, policy)).toHaveLength(expected);
  });

  test("no path and circuits inside one router are left alone", () => {
    expect(planSmartReroutes([circuit("c", "dear")], costOf, () => undefined, policy)).toEqual([]);
    expect(planSmartReroutes([{ id: "c", routers: ["a"], links: [] }], costOf, () => better, policy)).toEqual([]);
  });
});
