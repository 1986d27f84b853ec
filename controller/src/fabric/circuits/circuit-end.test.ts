import { ControlType, ctrlPb, EdgeCtrlType, encodeControl } from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import { dial, established, fault, meshPerTest } from "../testing/circuit-mesh.ts";
import type { TestFabric } from "../testing/test-fabric.ts";

let net: TestFabric;
const mesh = meshPerTest((started) => {
  net = started;
});

const confirm = (circuitIds: string[], idleTimes: Record<string, bigint> = {}) =>
  encodeControl(ctrlPb.CircuitConfirmationSchema, { circuitIds, idleTimes });

describe("the end of a circuit", () => {
  test.each([
    ["initiating", ctrlPb.FaultSubject.IngressFault],
    ["terminating", ctrlPb.FaultSubject.EgressFault],
  ])("the %s end closes: both routers let it run dry", async (_name, subject) => {
    const { a, b } = await mesh();
    const { circuitId } = await established(a, b);
    b.send(ControlType.Fault, fault(subject, circuitId));
    for (const router of [a, b]) expect(await router.nextUnroute()).toMatchObject({ circuitId, now: false });
    expect(net.fabric.circuits()).toEqual([]);
    expect(net.fabric.dynamicCost("t1")).toBe(0);
    a.send(ControlType.Fault, fault(subject, circuitId));
    await a.roundTrip();
    expect(a.pending(ControlType.Unroute)).toEqual([]);
  });

  test("an end that closes together with its answer ends the circuit after the dial was answered", async () => {
    const { a, b } = await mesh();
    const answer = dial(a);
    const atB = await b.nextRoute();
    a.acceptRoute((await a.nextRoute()).message);
    await a.roundTrip();
    b.acceptRoute(atB.message);
    b.send(ControlType.Fault, fault(ctrlPb.FaultSubject.EgressFault, atB.route.circuitId));
    expect((await answer).contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);
    expect(await a.nextUnroute()).toMatchObject({ circuitId: atB.route.circuitId, now: false });
    expect(net.fabric.circuits()).toEqual([]);
  });

  test("a fault of a router that was not told of it does not end a circuit that is being made", async () => {
    const { a, b } = await mesh();
    const uninvolved = await net.connect("c");
    const answer = dial(a);
    const routes = [await a.nextRoute(), await b.nextRoute()];
    const { circuitId } = routes[0]!.route;
    uninvolved.send(ControlType.Fault, fault(ctrlPb.FaultSubject.EgressFault, circuitId));
    await uninvolved.roundTrip();
    a.acceptRoute(routes[0]!.message);
    b.acceptRoute(routes[1]!.message);
    await answer;
    for (const router of [a, b]) {
      await router.roundTrip();
      expect(router.pending(ControlType.Unroute)).toEqual([]);
    }
    expect(net.fabric.circuit(circuitId)).toBeDefined();
  });

  test("a fault of a router that has nothing to do with the circuit changes nothing", async () => {
    const { a, b } = await mesh();
    const { circuitId } = await established(a, b);
    const c = await net.connect("c");
    c.send(ControlType.Fault, fault(ctrlPb.FaultSubject.IngressFault, circuitId));
    c.send(ControlType.Fault, fault(99 as ctrlPb.FaultSubject, circuitId));
    await c.roundTrip();
    expect(net.fabric.circuits()).toHaveLength(1);
  });

  test("an administrator and the end of a service remove circuits at once", async () => {
    const { a, b } = await mesh();
    const first = await established(a, b);
    expect(net.fabric.removeCircuit(first.circuitId)).toBe(true);
    expect(await a.nextUnroute()).toMatchObject({ circuitId: first.circuitId, now: true });
    expect(net.fabric.removeCircuit(first.circuitId)).toBe(false);
    const gentle = await established(a, b);
    expect(net.fabric.removeCircuit(gentle.circuitId, false)).toBe(true);
    expect(await a.nextUnroute()).toMatchObject({ circuitId: gentle.circuitId, now: false });
    const second = await established(a, b);
    net.model.emit({ kind: "service-removed", serviceId: "svc" });
    expect(await a.nextUnroute()).toMatchObject({ circuitId: second.circuitId, now: true });
  });

  test("confirmation: unknown and foreign circuits are unrouted, idle ones removed", async () => {
    const { a, b } = await mesh();
    const { circuitId } = await established(a, b);
    const c = await net.connect("c");
    a.send(ControlType.CircuitConfirmation, confirm(["unknown", circuitId]));
    expect(await a.nextUnroute()).toMatchObject({ circuitId: "unknown", now: true });
    c.send(ControlType.CircuitConfirmation, confirm([circuitId]));
    expect(await c.nextUnroute()).toMatchObject({ circuitId, now: true });
    expect(net.fabric.circuits()).toHaveLength(1);
    net.model.addService("svc", { maxIdleTimeMs: 90_000 });
    a.send(ControlType.CircuitConfirmation, confirm([circuitId], { [circuitId]: 89_999_000_000n }));
    a.send(ControlType.CircuitConfirmation, confirm(["unknown"]));
    await a.nextUnroute();
    expect(net.fabric.circuits()).toHaveLength(1);
    a.send(ControlType.CircuitConfirmation, confirm([circuitId], { [circuitId]: 90_000_000_000n }));
    expect(await b.nextUnroute()).toMatchObject({ circuitId, now: true });
  });

  test("confirmation: the circuit of a deleted service is removed", async () => {
    const { a, b } = await mesh();
    const { circuitId } = await established(a, b);
    net.model.services.delete("svc");
    a.send(ControlType.CircuitConfirmation, confirm([circuitId]));
    expect(await b.nextUnroute()).toMatchObject({ circuitId, now: true });
  });
});
