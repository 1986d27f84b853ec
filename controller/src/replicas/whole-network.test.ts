import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Answer, startTestController, type TestController } from "../api/testing/test-controller.ts";
import { TestNetwork } from "../api/testing/test-network.ts";
import type { Circuit } from "../fabric/circuits/circuit.ts";
import type { LinkState } from "../fabric/links/link-table.ts";
import { TestReplicas } from "./testing/test-replicas.ts";
import { WholeNetwork } from "./whole-network.ts";

interface Other {
  readonly network: TestNetwork;
  readonly whole: WholeNetwork;
}

let replicas: TestReplicas;
let c: TestController;
let token: string;
let own: TestNetwork;
let two: Other;
let three: Other;
beforeEach(async () => {
  replicas = await TestReplicas.create();
  const { calls } = await replicas.start("one");
  c = await startTestController({ calls });
  token = await c.login("admin", "admin");
  own = c.network;
  two = await other("two");
  three = await other("three");
});
afterEach(async () => {
  await c.close();
  await replicas.close();
});

async function other(id: string): Promise<Other> {
  const { calls } = await replicas.start(id);
  const network = new TestNetwork();
  return { network, whole: new WholeNetwork(network.view(), calls) };
}

const call = (method: string, path: string, body?: unknown): Promise<Answer> =>
  c.call(method, `/fabric/v1${path}`, { token, body });
const ids = async (query: string) => {
  const { json } = await call("GET", `/circuits?${query}`);
  return { ids: json.data.map(({ id }: { id: string }) => id), total: json.meta.pagination.totalCount };
};

function put(network: TestNetwork, id: string, day: number, change: Partial<Circuit> = {}): void {
  const at = new Date(Date.UTC(2026, 0, day));
  network.circuits.set(id, {
    ...{ id, serviceId: "s", terminatorId: "t", clientId: "identity", hostId: "host" },
    grant: { kind: "token", apiSessionId: "a", identityId: "identity", issuedAt: at },
    route: { routers: ["r-a", "r-b"], links: ["l1"], ingressId: "i", egressId: "e" },
    addresses: { initiatorLocal: "", initiatorRemote: "", terminatorLocal: "", terminatorRemote: "" },
    ...{ requestedAt: 0, createdAt: at, updatedAt: at, tags: { clientId: "identity" }, peerData: new Map() },
    ...change,
  });
}

function link(id: string): LinkState {
  return {
    ...{ id, source: "r-a", destination: "r-b", protocol: "tls", dialAddress: "tls:b:1", iteration: 1 },
    ...{ state: "connected", stateSince: 0, isDown: false, staticCost: 1, cost: 6 },
    ...{ sourceLatencyNs: 2_000_000, destinationLatencyNs: 3_000_000 },
    connectionState: { stateIteration: 1, connections: [] },
  };
}

describe("circuits of all controllers", () => {
  it("are filtered, sorted and paged together, whichever controller made them", async () => {
    for (let n = 0; n < 30; n++)
      put([own, two.network, three.network][n % 3]!, `c${String(n).padStart(2, "0")}`, n + 1);
    expect(await ids("limit=4")).toEqual({ ids: ["c00", "c01", "c02", "c03"], total: 30 });
    expect(await ids("limit=3&offset=10&sort=createdAt%20desc")).toEqual({ ids: ["c19", "c18", "c17"], total: 30 });
    const filter = encodeURIComponent("createdAt > datetime(2026-01-28T00:00:00Z) sort by id desc");
    expect(await ids(`filter=${filter}`)).toEqual({ ids: ["c29", "c28"], total: 2 });
    const everything = await ids("limit=-1");
    expect([everything.total, new Set(everything.ids).size]).toEqual([30, 30]);
    expect((await call("GET", "/circuits?filter=nothing%20%3D%201")).status).toBe(400);
    expect(
      (await two.whole.circuitPage({ filter: undefined, sort: [], sortIn: "sort", limit: 1, offset: 29 })).data,
    ).toMatchObject([{ id: "c29", createdAt: new Date(Date.UTC(2026, 0, 30)) }]);
  });

  it("of a replica that does not answer are left out", async () => {
    put(own, "mine", 1);
    put(two.network, "theirs", 1);
    replicas.set({ id: "three", ctrlAddress: "tls:localhost:1" });
    expect(await ids("limit=-1")).toEqual({ ids: ["mine", "theirs"], total: 2 });
  });

  it("are shown and ended at any of them", async () => {
    put(two.network, "theirs", 5, { grant: { kind: "session", sessionId: "session" } });
    expect((await call("GET", "/circuits/theirs")).json.data).toMatchObject({
      id: "theirs",
      clientId: "session",
      createdAt: "2026-01-05T00:00:00.000Z",
      path: { nodes: [{ id: "r-a" }, { id: "r-b" }] },
    });
    expect((await c.admin("GET", "/sessions/session/route-path")).json.data).toEqual({ routePath: ["r-a", "r-b"] });
    expect((await call("DELETE", "/circuits/theirs", { immediate: false })).status).toBe(200);
    expect(two.network.ended).toContainEqual({ id: "theirs", isImmediate: false });
    expect((await call("GET", "/circuits/theirs")).status).toBe(404);
    expect((await call("DELETE", "/circuits/theirs")).status).toBe(404);
  });

  it("through a router are known with whose they are", async () => {
    put(own, "mine", 1);
    put(two.network, "theirs", 1);
    put(two.network, "elsewhere", 1, { route: { routers: ["r-c"], links: [], ingressId: "i", egressId: "e" } });
    const { ids: through, owners } = await three.whole.circuitsThrough("r-b", "three");
    expect([[...through].sort(), [...owners].sort()]).toEqual([
      ["mine", "theirs"],
      ["one", "three", "two"],
    ]);
  });
});

it("a link is removed at all controllers, and a router disconnected from all", async () => {
  for (const network of [own, two.network, three.network]) network.links.set("l1", link("l1"));
  expect((await call("DELETE", "/links/l1")).status).toBe(200);
  for (const network of [own, two.network, three.network]) expect(network.links.size).toBe(0);
  await two.whole.disconnectRouter("r-a", "because");
  for (const network of [own, two.network, three.network]) expect(network.disconnected).toEqual(["r-a"]);
});

it("an inspection has the values of every controller under its own id, and routers are asked once", async () => {
  const value = (appId: string) => ({ success: true, errors: [], values: [{ appId, name: "config", value: appId }] });
  own.inspected = value("one");
  two.network.inspected = value("two");
  three.network.inspected = { success: false, errors: ["three: config: broken"], values: [] };
  replicas.set({ id: "four", ctrlAddress: "tls:localhost:1" });
  const { json } = await call("POST", "/inspections", { appRegex: ".*", requestedValues: ["config"] });
  expect(json.values.map(({ appId }: { appId: string }) => appId)).toEqual(["one", "two"]);
  expect(json.success).toBe(false);
  expect(json.errors).toEqual(["three: config: broken", "four: the controller did not answer"]);
  // One that is not meant need not answer.
  expect(
    (await call("POST", "/inspections", { appRegex: "one", requestedValues: ["config"] })).json.errors,
  ).not.toContain("four: the controller did not answer");
});
