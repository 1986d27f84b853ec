import {
  ControlHeader,
  ControlHello,
  ControlType,
  ctrlPb,
  decodeControl,
  encodeControl,
  Headers,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { sql } from "kysely";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { dial, fault, link } from "../../fabric/testing/circuit-mesh.ts";
import { MemoryModel } from "../../fabric/testing/memory-model.ts";
import type { ScriptedRouter } from "../../fabric/testing/scripted-router.ts";
import { TestFabric } from "../../fabric/testing/test-fabric.ts";
import { CircuitReportCalls } from "../../replicas/circuit-report-calls.ts";
import { TestReplicas } from "../../replicas/testing/test-replicas.ts";
import { openStore, type Store } from "../../store/database.ts";
import { BreakableWay } from "../../store/testing/breakable-way.ts";
import { testDatabase } from "../../store/testing/test-store.ts";
import { fabricReplicas } from "./fabric-replicas.ts";

type Database = Awaited<ReturnType<typeof testDatabase>>;
const PATIENCE = { timeout: 20_000, interval: 50 };

let database: Database;
let authority: TestAuthority;
let model: MemoryModel;
/** What routers carry, by their ids. */
let carried: Map<string, { id: string; ctrlId: string; [key: string]: unknown }[]>;
let stops: (() => Promise<unknown>)[];
/** The calls between the controllers. */
let replicas: TestReplicas;

beforeEach(async () => {
  database = await testDatabase();
  authority = await TestAuthority.create();
  replicas = await TestReplicas.create(authority);
  model = new MemoryModel();
  model.addService("svc");
  model.addTerminator("t1", "svc", "b");
  model.sessions.set("dial", { id: "s1", type: "Dial", serviceId: "svc", identityId: "client" });
  carried = new Map();
  stops = [];
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
  await replicas.close();
  await database.drop();
});

interface Controller {
  readonly id: string;
  readonly store: Store;
  readonly net: TestFabric;
  readonly a: ScriptedRouter;
  readonly b: ScriptedRouter;
  /** Ends it as a process that ends. */
  readonly stop: () => Promise<void>;
}

const identities = new Map<string, Awaited<ReturnType<TestAuthority["identity"]>>>();

/** A controller with its own channels to the routers a and b, which have a link. */
async function controller(id: string, connection = database.connection): Promise<Controller> {
  const store = await openStore({ connection, replica: { id }, poolSize: 4, log: silentLogger });
  const called = await replicas.start(id);
  const calls = new CircuitReportCalls(called.calls);
  const others = fabricReplicas({ store, controllerId: id, calls, log: silentLogger });
  const net = await TestFabric.start({}, silentLogger, { id, authority, model, replicas: others });
  const join = async (routerId: string) => {
    const known = model.routers.has(routerId) ? identities.get(routerId) : undefined;
    const identity = known ?? (await net.enroll(routerId));
    identities.set(routerId, identity);
    const circuits = () => carried.get(routerId) ?? [];
    return net.connect(routerId, { identity, circuits, previousConnection: "before" });
  };
  const [a, b] = [await join("a"), await join("b")];
  await link(a, b, "ab", 1);
  let isStopped = false;
  const stop = async () => {
    if (isStopped) return;
    isStopped = true;
    await net.stop();
    await replicas.stop(called);
    await others.close();
    await store.close();
  };
  stops.push(stop);
  return { id, store, net, a, b, stop };
}

async function two(connection = database.connection): Promise<{ one: Controller; other: Controller }> {
  const one = await controller("ctrl1", connection);
  const other = await controller("ctrl2");
  await vi.waitFor(() => expect(other.store.replica.others.map(({ replicaId }) => replicaId)).toEqual(["ctrl1"]));
  return { one, other };
}

/** Makes a circuit at a controller; its routers carry it from then on. */
async function circuitOf({ id: ctrlId, net, a, b }: Controller): Promise<string> {
  const answer = dial(a);
  const atA = await a.nextRoute();
  const atB = await b.nextRoute();
  a.acceptRoute(atA.message);
  b.acceptRoute(atB.message);
  await answer;
  const id = atA.route.circuitId;
  const tags = { ...atA.route.tags };
  const route = net.fabric.circuit(id)?.route;
  const forwards = (route: ctrlPb.Route) =>
    route.forwards.map(({ srcAddress, dstAddress }) => [srcAddress, dstAddress]);
  const { ingressId: initiator, egressId: terminator } = route!;
  carried.set("a", [...(carried.get("a") ?? []), { id, ctrlId, tags, forwards: forwards(atA.route), initiator }]);
  carried.set("b", [...(carried.get("b") ?? []), { id, ctrlId, tags, forwards: forwards(atB.route), terminator }]);
  return id;
}

/** A router hears that a circuit belongs to the controller of this channel now. */
async function toldOf(router: ScriptedRouter, id: string, ctrlId: string): Promise<void> {
  const { message, route } = await router.nextRoute(id);
  expect(route).toMatchObject({ attempt: 99_969_996, forwards: [] });
  const all = carried.get(router.id) ?? [];
  carried.set(
    router.id,
    all.map((circuit) => (circuit.id === id ? { ...circuit, ctrlId } : circuit)),
  );
  router.acceptRoute(message);
}

async function takenOver({ id, net, a, b }: Controller, circuitId: string): Promise<void> {
  await vi.waitFor(() => expect(net.fabric.circuit(circuitId)).toBeDefined(), PATIENCE);
  for (const router of [a, b]) await toldOf(router, circuitId, id);
}

const confirmation = (id: string) =>
  encodeControl(ctrlPb.CircuitConfirmationSchema, { circuitIds: [id], idleTimes: {} });
const owners = async ({ db }: Store) =>
  (await sql<{ circuit_id: string; replica_id: string }>`SELECT circuit_id, replica_id FROM circuit_owner`.execute(db))
    .rows;

it("the circuits of a controller that is gone are taken over, moved and ended", async () => {
  const { one, other } = await two();
  // Routers are told that controllers answer for each other: the bit 62.
  expect(other.a.channel.result.get(ControlHello.CapabilitiesV2)).toHaveLength(8);
  const id = await circuitOf(one);
  await one.stop();
  await takenOver(other, id);
  await link(other.a, other.b, "ab2", 5);
  other.a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.LinkFault, "ab", 1));
  for (const router of [other.a, other.b]) {
    const { message, route } = await router.nextRoute(id);
    expect(route.forwards.flatMap(({ srcAddress }) => srcAddress)).toContain("ab2");
    router.acceptRoute(message);
  }
  other.b.send(ControlType.Fault, fault(ctrlPb.FaultSubject.EgressFault, id));
  for (const router of [other.a, other.b])
    expect(await router.nextUnroute()).toMatchObject({ circuitId: id, now: false });
  await vi.waitFor(async () => expect(await owners(other.store)).toEqual([]), PATIENCE);
});

it("a link that broke while nobody had the circuit: it is moved after it was taken over", async () => {
  const { one, other } = await two();
  const id = await circuitOf(one);
  await link(other.a, other.b, "ab2", 5);
  await one.stop();
  other.a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.LinkFault, "ab", 1));
  await takenOver(other, id);
  for (const router of [other.a, other.b]) {
    const { message, route } = await router.nextRoute(id);
    expect(route.forwards.flatMap(({ srcAddress }) => srcAddress)).toContain("ab2");
    router.acceptRoute(message);
  }
});

it("a circuit of a controller that lives is left alone, whatever routers say of it, and its controller is told", async () => {
  const { one, other } = await two();
  const id = await circuitOf(one);
  const headers = new Headers().setString(ControlHeader.CircuitOwner, "ctrl1");
  other.a.send(ControlType.CircuitConfirmation, confirmation(id), headers);
  other.a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.UnknownOwnerForwardFault, id), headers);
  // Passed on: it is moved by its controller.
  for (const router of [one.a, one.b]) {
    const { message } = await router.nextRoute(id);
    router.acceptRoute(message);
  }
  other.a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.IngressFault, id), headers);
  for (const router of [one.a, one.b]) expect(await router.nextUnroute()).toMatchObject({ circuitId: id, now: false });
  await other.a.roundTrip();
  expect(other.a.pending(ControlType.Unroute)).toEqual([]);
  expect(other.net.fabric.circuits()).toEqual([]);
});

it("reports of a broken router are believed for itself alone, and keep no report of another one from its way", async () => {
  const { one, other } = await two();
  const id = await circuitOf(one);
  const headers = new Headers().setString(ControlHeader.CircuitOwner, "ctrl1");
  const broken = await other.net.connect("broken");
  // The circuit does not pass this router: it cannot end or move it.
  broken.send(ControlType.Fault, fault(ctrlPb.FaultSubject.EgressFault, id), headers);
  const odd = ["x\0y", "é", "x".repeat(100_000), id];
  const many = Array.from({ length: 20_000 }, (_, n) => `none${n}`);
  for (let n = 0; n < 5; n++) {
    const ids = [...odd, ...many].join(" ");
    broken.send(ControlType.Fault, fault(ctrlPb.FaultSubject.UnknownOwnerForwardFault, ids), headers);
    broken.send(
      ControlType.CircuitConfirmation,
      encodeControl(ctrlPb.CircuitConfirmationSchema, { circuitIds: ["x\0y", id], idleTimes: { [id]: -5n } }),
      headers,
    );
  }
  await broken.roundTrip();
  for (const router of [one.a, one.b]) expect(router.pending(ControlType.Route)).toEqual([]);
  expect(one.net.fabric.circuit(id)).toBeDefined();
  other.b.send(ControlType.Fault, fault(ctrlPb.FaultSubject.EgressFault, id), headers);
  for (const router of [one.a, one.b]) expect(await router.nextUnroute()).toMatchObject({ circuitId: id, now: false });
});

it("a controller that stood still forgets what was taken over, and fights for none of it", async () => {
  const way = await BreakableWay.to(database.connection);
  stops.push(() => way.close());
  const { one, other } = await two(way.connection);
  const id = await circuitOf(one);
  await way.cut();
  await takenOver(other, id);
  // It does not know it yet, and moves nothing: the link is back before it may.
  await link(one.a, one.b, "ab2", 5);
  one.a.send(ControlType.Fault, fault(ctrlPb.FaultSubject.LinkFault, "ab", 1));
  await one.a.roundTrip();
  await way.restore();
  await vi.waitFor(() => expect(one.net.fabric.circuits()).toEqual([]), PATIENCE);
  expect(other.net.fabric.circuit(id)).toBeDefined();
  for (const router of [one.a, one.b]) {
    await router.roundTrip();
    expect(router.pending(ControlType.Route)).toEqual([]);
    expect(router.pending(ControlType.Unroute)).toEqual([]);
  }
  // New circuits are its own.
  await circuitOf({ ...one });
  // A router of OpenZiti still files the circuit under it: what it asks goes to the new owner.
  other.net.model.services.delete("svc");
  one.a.send(ControlType.CircuitConfirmation, confirmation(id));
  for (const router of [other.a, other.b])
    expect(await router.nextUnroute()).toMatchObject({ circuitId: id, now: true });
});

it("a controller that comes back at once has its circuits again, one that comes back late has those that nobody took", async () => {
  const { one, other } = await two();
  const id = await circuitOf(one);
  await one.stop();
  const again = await controller("ctrl1");
  await vi.waitFor(() => expect(again.net.fabric.circuit(id)).toBeDefined(), PATIENCE);
  await again.stop();
  await takenOver(other, id);
  // Of OpenZiti's routers: they still say that it is filed under the former one.
  for (const [routerId, all] of carried) {
    carried.set(
      routerId,
      all.map((circuit) => ({ ...circuit, ctrlId: "ctrl1" })),
    );
  }
  const late = await controller("ctrl1");
  const fresh = await circuitOf(late);
  expect(late.net.fabric.circuits().map((circuit) => circuit.id)).toEqual([fresh]);
  expect(other.net.fabric.circuits().map((circuit) => circuit.id)).toEqual([id]);
  expect(await owners(other.store)).toEqual([{ circuit_id: id, replica_id: "ctrl2" }]);
});

it.each<[string, () => void]>([
  ["its session", () => void model.sessions.delete("dial")],
  ["its host's right", () => void model.denied.add("host/svc")],
])("a circuit that lost %s while nobody had it ends with the takeover", async (_what, lose) => {
  const { one, other } = await two();
  const id = await circuitOf(one);
  await one.stop();
  lose();
  for (const router of [other.a, other.b]) {
    const { circuitId, now } = await router.nextUnroute();
    expect({ circuitId, now }).toEqual({ circuitId: id, now: true });
  }
  expect(other.net.fabric.circuits()).toEqual([]);
});

it.each([
  ["the single controller that had no id of its own", "controller", "c1"],
  ["a controller that has another id now", "ctrl1", "c1"],
])("the circuits of %s are taken over by the process that is there now", async (_what, former, now) => {
  const before = await controller(former);
  const id = await circuitOf(before);
  // A single controller gives routers no tag of the right.
  if (former === "controller")
    for (const all of carried.values()) for (const { tags } of all) delete (tags as { grant?: string }).grant;
  await before.stop();
  const present = await controller(now);
  await takenOver(present, id);
  present.net.fabric.removeCircuit(id);
  for (const router of [present.a, present.b]) {
    expect(await router.nextUnroute()).toMatchObject({ circuitId: id, now: true });
  }
});

it("one controller asks a router for its terminators, and deletes none that another one has created again", async () => {
  const { one, other } = await two();
  const asked = async ({ b }: Controller) =>
    decodeControl(
      ctrlPb.ValidateTerminatorsV2RequestSchema,
      (await b.next(ControlType.ValidateTerminatorsV2Request)).body,
    ).terminators;
  const [first] = await asked(one);
  expect(first).toMatchObject({ id: "t1" });
  await other.b.roundTrip();
  expect(other.b.pending(ControlType.ValidateTerminatorsV2Request)).toEqual([]);
  await model.createTerminator({ ...model.terminators.get("t1")! });
  const states = { t1: { valid: false, marker: first!.marker } };
  const answer = encodeControl(ctrlPb.ValidateTerminatorsV2ResponseSchema, { states });
  one.b.send(ControlType.ValidateTerminatorsV2Response, answer);
  await one.b.roundTrip();
  one.net.fabric.tick(Date.now() + 60_000, performance.now());
  const [second] = await asked(one);
  expect(model.terminators.has("t1")).toBe(true);
  // Its successor asks for all.
  await one.stop();
  const [third] = await asked(other);
  expect([second, third]).toMatchObject([{ id: "t1" }, { id: "t1" }]);
  other.b.send(
    ControlType.ValidateTerminatorsV2Response,
    encodeControl(ctrlPb.ValidateTerminatorsV2ResponseSchema, {
      states: { t1: { valid: false, marker: third!.marker } },
    }),
  );
  await vi.waitFor(() => expect(model.terminators.has("t1")).toBe(false), PATIENCE);
});

it("a link marked down at one controller is down at the others, also at one that comes later, and carries their circuits no more", async () => {
  const { one, other } = await two();
  const id = await circuitOf(one);
  await link(one.a, one.b, "ab2", 5);
  await other.net.fabric.updateLink("ab", { isDown: true });
  for (const router of [one.a, one.b]) {
    const { message, route } = await router.nextRoute(id);
    expect(route.forwards.flatMap(({ srcAddress }) => srcAddress)).toContain("ab2");
    router.acceptRoute(message);
  }
  await other.net.fabric.updateLink("ab", { staticCost: 7 });
  const marked = { isDown: true, staticCost: 7 };
  await vi.waitFor(() => expect(one.net.fabric.link("ab")).toMatchObject(marked), PATIENCE);
  await other.stop();
  const later = await controller("ctrl2");
  expect(later.net.fabric.link("ab")).toMatchObject(marked);
  later.net.fabric.removeLink("ab");
  const settings = () => sql`SELECT * FROM link_setting`.execute(one.store.db);
  await vi.waitFor(async () => expect((await settings()).rows).toEqual([]), PATIENCE);
});
