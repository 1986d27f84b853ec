import { ControlType, ctrlPb, decodeControl, encodeControl } from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import { fault, link, meshPerTest } from "../testing/circuit-mesh.ts";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, type TestFabric } from "../testing/test-fabric.ts";

let net: TestFabric;
const mesh = meshPerTest((started) => {
  net = started;
});

const former = () => mesh({}, {}, { hasFormerCircuits: true });

interface Reported {
  readonly id: string;
  readonly ctrlId: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly forwards: readonly (readonly [string, string])[];
  readonly initiator?: string;
  readonly terminator?: string;
}

const tags = { serviceId: "svc", clientId: "client", hostId: "host" };

const both = (one: string, other: string): [string, string][] => [
  [one, other],
  [other, one],
];

/** A circuit from before, as its two routers tell it: `in` at a, over link ab, `out` at b. */
function circuit(id: string, o: Partial<Reported> = {}): [atA: Reported, atB: Reported] {
  const common = { id, ctrlId: "ctrl1", tags, ...o };
  return [
    { ...common, initiator: "in", forwards: both("in", "ab") },
    { ...common, terminator: "out", forwards: both("ab", "out") },
  ];
}

/** Answers the question for circuits that every router gets at its first connect. */
async function tell(router: ScriptedRouter, ...circuits: Reported[]): Promise<void> {
  const question = await router.next(ControlType.InspectRequest);
  const { requestedValues } = decodeControl(ctrlPb.InspectRequestSchema, question.body);
  expect(requestedValues).toEqual(["circuit-routes"]);
  const values = [{ name: "circuit-routes", value: JSON.stringify({ circuits }) }];
  const body = encodeControl(ctrlPb.InspectResponseSchema, { success: true, errors: [], values });
  router.channel.reply(question, { contentType: ControlType.InspectResponse, body });
  await router.roundTrip();
}

const confirmed = (id: string) => encodeControl(ctrlPb.CircuitConfirmationSchema, { circuitIds: [id], idleTimes: {} });

describe("circuits from before the controller's start", () => {
  test("are known when all their routers have told of them, count for their terminators, and are moved and ended as any other", async () => {
    const { a, b } = await former();
    const [atA, atB] = circuit("old");
    await tell(b, atB);
    expect(net.fabric.circuits()).toEqual([]);
    await tell(a, atA);
    await eventually(() => expect(net.fabric.circuit("old")).toBeDefined());
    expect(net.fabric.circuit("old")).toMatchObject({
      serviceId: "svc",
      clientId: "client",
      terminatorId: "t1",
      tags,
      route: { routers: ["a", "b"], links: ["ab"], ingressId: "in", egressId: "out" },
    });
    expect(net.fabric.dynamicCost("t1")).toBeGreaterThan(0);
    await link(a, b, "ab2", 5);
    a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.LinkFault, "ab", 1));
    for (const router of [a, b]) {
      const { message, route } = await router.nextRoute("old");
      expect(route.forwards.map(({ srcAddress, dstAddress }) => [srcAddress, dstAddress])).toEqual(
        router === a ? both("in", "ab2") : both("ab2", "out"),
      );
      router.acceptRoute(message);
    }
    b.send(ControlType.Fault, fault(ctrlPb.FaultSubject.EgressFault, "old"));
    for (const router of [a, b]) expect(await router.nextUnroute()).toMatchObject({ circuitId: "old", now: false });
    expect(net.fabric.dynamicCost("t1")).toBe(0);
  });

  test("are not ended, whatever routers ask of them, while a router of theirs may still come", async () => {
    const { a, b } = await former();
    // Before its answer nothing is known of any circuit.
    a.send(ControlType.CircuitConfirmation, confirmed("old"));
    a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.ForwardFault, "old"));
    const [atA, atB] = circuit("old");
    await tell(a, atA);
    a.send(ControlType.CircuitConfirmation, confirmed("old"));
    a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.ForwardFault, "old other"));
    expect(await a.nextUnroute()).toMatchObject({ circuitId: "other", now: true });
    expect(a.pending(ControlType.Unroute)).toEqual([]);
    await tell(b, atB);
    await eventually(() => expect(net.fabric.circuit("old")).toBeDefined());
    expect(a.pending(ControlType.Unroute)).toEqual([]);
  });

  test("run dry when an end closes before all of their routers have come", async () => {
    const { a, b } = await former();
    const [atA, atB] = circuit("old");
    await tell(a, atA);
    a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.IngressFault, "old"));
    expect(await a.nextUnroute()).toMatchObject({ circuitId: "old", now: false });
    await tell(b, { ...atB, id: "another" }, atB);
    await b.roundTrip();
    expect(net.fabric.circuits()).toEqual([]);
  });

  test.each<[string, Partial<Reported>]>([
    ["another controller's", { ctrlId: "ctrl2" }],
    ["without a service", { tags: { clientId: "client", hostId: "host" } }],
  ])("%s are left alone", async (_name, change) => {
    const { a, b } = await former();
    const [atA, atB] = circuit("old", change);
    const [alsoA, alsoB] = circuit("good");
    await tell(a, atA, alsoA);
    await tell(b, atB, alsoB);
    await eventually(() => expect(net.fabric.circuit("good")).toBeDefined());
    expect(net.fabric.circuit("old")).toBeUndefined();
  });

  test("what does not fit together is not taken: a way that leads nowhere, and one that goes in a circle", async () => {
    const { a, b } = await former();
    const [atA, atB] = circuit("circle");
    const [goodA, goodB] = circuit("good");
    await tell(a, { ...atA, forwards: [...both("in", "ab"), ["ba", "ab"]] }, circuit("nowhere")[0], goodA);
    await tell(
      b,
      { ...atB, forwards: [["ab", "ba"]] },
      { ...circuit("nowhere")[1], forwards: [["other", "out"]] },
      goodB,
    );
    await eventually(() => expect(net.fabric.circuit("good")).toBeDefined());
    expect(net.fabric.circuits().map(({ id }) => id)).toEqual(["good"]);
  });

  test.each(["serviceId", "clientId", "hostId"])(
    "are not taken when their routers do not agree on whose they are: %s",
    async (name) => {
      const { a, b } = await former();
      const [atA, atB] = circuit("old");
      const [alsoA, alsoB] = circuit("good");
      await tell(b, { ...atB, tags: { ...tags, [name]: "forged" } }, alsoB);
      await tell(a, atA, alsoA);
      await eventually(() => expect(net.fabric.circuit("good")).toBeDefined());
      expect(net.fabric.circuit("old")).toBeUndefined();
    },
  );

  test("a right that went meanwhile ends them", async () => {
    const { a, b } = await former();
    net.model.denied.add("client/svc");
    const [atA, atB] = circuit("old");
    await tell(a, atA);
    await tell(b, atB);
    expect(await a.nextUnroute()).toMatchObject({ circuitId: "old", now: true });
    expect(net.fabric.circuits()).toEqual([]);
  });

  test.each([
    ["ends those made with them", 1_000_000, true],
    ["spares those made with a later one", 1_001_000, false],
  ])("a revocation of their identity's tokens, meanwhile, %s", async (_, issuedAt, isEnded) => {
    const { a, b } = await former();
    net.model.accessTokens.set("token", { identityId: "client", apiSessionId: "as", issuedAt: new Date(issuedAt) });
    net.model.revokedIdentities.set("client", new Date(1_000_000));
    const grant = `token as ${issuedAt}`;
    const [atA, atB] = circuit("old", { tags: { ...tags, grant } });
    await tell(a, atA);
    await tell(b, atB);
    if (isEnded) expect(await a.nextUnroute()).toMatchObject({ circuitId: "old", now: true });
    else await eventually(() => expect(net.fabric.circuit("old")).toBeDefined());
    await a.roundTrip();
    expect(net.fabric.circuits().map(({ id }) => id)).toEqual(isEnded ? [] : ["old"]);
  });

  test("a router is asked once: what ended while it was away does not come back", async () => {
    const { a, b } = await former();
    const [atA, atB] = circuit("old");
    await tell(a, atA);
    await tell(b, atB);
    await eventually(() => expect(net.fabric.circuit("old")).toBeDefined());
    const previousConnection = a.channel.connectionId;
    a.close();
    await eventually(() => expect(net.fabric.onlineRouterIds()).toEqual(["b"]));
    net.fabric.removeCircuit("old");
    const again = await net.connect("a", { previousConnection, hasFormerCircuits: true });
    await again.roundTrip();
    await again.roundTrip();
    expect(again.pending(ControlType.InspectRequest)).toEqual([]);
    again.send(ControlType.CircuitConfirmation, confirmed("old"));
    expect(await again.nextUnroute()).toMatchObject({ circuitId: "old", now: true });
  });

  test("an answer that is no list of circuits is as good as none", async () => {
    const { a } = await former();
    const question = await a.next(ControlType.InspectRequest);
    const values = [{ name: "circuit-routes", value: '{"circuits":[{"id":5}]}' }];
    const body = encodeControl(ctrlPb.InspectResponseSchema, { success: true, errors: [], values });
    a.channel.reply(question, { contentType: ControlType.InspectResponse, body });
    await a.roundTrip();
    a.send(ControlType.CircuitConfirmation, confirmed("old"));
    expect(await a.nextUnroute()).toMatchObject({ circuitId: "old", now: true });
  });
});
