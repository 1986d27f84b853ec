import { createClient } from "@sallyport/api";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Circuit } from "../../fabric/circuits/circuit.ts";
import type { LinkState } from "../../fabric/links/link-table.ts";
import { startFabricClient } from "../testing/fabric-client.ts";

type FabricClient = Awaited<ReturnType<typeof startFabricClient>>;

let controller: FabricClient["controller"];
let token: string;
let call: FabricClient["call"];
let listed: FabricClient["listed"];
beforeAll(async () => {
  ({ controller, token, call, listed } = await startFabricClient());
});
afterAll(() => controller.close());

describe("links and circuits", () => {
  const link = (id: string, change: Partial<LinkState> = {}): LinkState => ({
    id,
    source: "r-a",
    destination: "r-b",
    protocol: "tls",
    dialAddress: "tls:b:1",
    iteration: 1,
    state: "connected",
    stateSince: 0,
    isDown: false,
    staticCost: 1,
    sourceLatencyNs: 2_000_000,
    destinationLatencyNs: 3_000_000,
    connectionState: { stateIteration: 1, connections: [] },
    cost: 6,
    ...change,
  });
  const circuit = (id: string, createdAt: string): Circuit => ({
    id,
    serviceId: "s",
    terminatorId: "t",
    clientId: "identity",
    hostId: "host",
    grant: { kind: "session", sessionId: "session" },
    route: { routers: ["r-a", "r-b"], links: ["l1"], ingressId: "i", egressId: "e" },
    addresses: { initiatorLocal: "", initiatorRemote: "", terminatorLocal: "", terminatorRemote: "" },
    requestedAt: 0,
    createdAt: new Date(createdAt),
    updatedAt: new Date(createdAt),
    tags: { clientId: "identity" },
    peerData: new Map(),
  });
  beforeAll(() => {
    for (const each of [
      link("l1"),
      link("l3", { cost: 100, state: "failed" }),
      link("l2", { cost: 20, isDown: true }),
    ]) {
      controller.network.links.set(each.id, each);
    }
    for (const each of [circuit("c1", "2026-01-01T00:00:00Z"), circuit("c2", "2026-01-02T00:00:00Z")]) {
      controller.network.circuits.set(each.id, each);
    }
  });

  test.each([
    ["true", ["l1", "l2", "l3"]],
    ["sort by cost desc", ["l3", "l2", "l1"]],
    ["sort by state, cost desc limit 2", ["l2", "l1"]],
    ["skip 1 limit 1", ["l2"]],
    ['state = "Connected" and not down', ["l1"]],
    ["cost between 20 and 100", ["l2"]],
    ["cost in [6, 100]", ["l1", "l3"]],
    ["cost not in [6, 100]", ["l2"]],
    ['id icontains "L" and id != "l1"', ["l2", "l3"]],
    ['sourceRouter = "r-a" and destRouter not contains "a" and iteration >= 1.0', ["l1", "l2", "l3"]],
    ["id > 5", ["l1", "l2", "l3"]],
    ["dialAddress = null or down", ["l2"]],
  ])("links are filtered and ordered by %s", async (filter, ids) => {
    expect(await listed("/links", filter)).toEqual(ids);
  });

  test.each([
    'name = "x"',
    "cost",
    'cost = "x"',
    'anyOf(cost) = "x"',
    "isEmpty(links)",
    "true sort by nothing",
    'down contains "x"',
    'id between "a" and "b"',
    "tags.x = 1",
  ])("%s is no filter of links", async (filter) => {
    const answer = await call("GET", `/links?filter=${encodeURIComponent(filter)}`);
    expect([answer.status, answer.json.error.code]).toEqual([400, "INVALID_FILTER"]);
  });

  test("pages tell the total; a bad sort has its own code", async () => {
    const answer = await call("GET", "/links?limit=1&offset=1&sort=cost%20desc");
    expect(answer.json.data).toMatchObject([{ id: "l2", down: true, cost: 20 }]);
    expect(answer.json.meta.pagination).toEqual({ limit: 1, offset: 1, totalCount: 3 });
    expect((await call("GET", "/links?sort=nothing")).json.error.code).toBe("INVALID_SORT_IDENTIFIER");
  });

  test("a link is shown, changed and closed", async () => {
    expect((await call("GET", "/links/l1")).json.data).toEqual({
      id: "l1",
      cost: 6,
      staticCost: 1,
      sourceLatency: 2_000_000,
      destLatency: 3_000_000,
      sourceRouter: expect.objectContaining({ id: "r-a", entity: "routers" }),
      destRouter: expect.objectContaining({ id: "r-b", entity: "routers" }),
      down: false,
      iteration: 1,
      protocol: "tls",
      state: "Connected",
    });
    expect((await call("PATCH", "/links/l1", { staticCost: 11, down: true })).status).toBe(200);
    expect((await call("GET", "/links/l1")).json.data).toMatchObject({ cost: 16, staticCost: 11, down: true });
    for (const bad of [{ staticCost: -1 }, { staticCost: 2 ** 31 }, { staticCost: 0.5 }, { down: "yes" }]) {
      expect((await call("PATCH", "/links/l1", bad)).status).toBe(400);
    }
    expect((await call("PATCH", "/links/unknown", { down: true })).status).toBe(404);
    expect((await call("DELETE", "/links/l3", { immediate: false })).status).toBe(200);
    expect((await call("DELETE", "/links/l3")).status).toBe(200);
    expect((await call("GET", "/links/l3")).status).toBe(404);
  });

  test("circuits are filtered by time and by what routers know them by", async () => {
    expect(await listed("/circuits", "createdAt > datetime(2026-01-01T12:00:00Z)")).toEqual(["c2"]);
    expect(
      await listed("/circuits", 'tags.clientId = "identity" and clientId = "session" sort by createdAt desc'),
    ).toEqual(["c2", "c1"]);
    expect(await listed("/circuits", 'tags.other != "x" and tags.clientId != null')).toEqual(["c1", "c2"]);
    expect(await listed("/circuits", "tags.clientId = 5")).toEqual([]);
  });

  test("a circuit is shown with its path, and ended at once or gently", async () => {
    expect((await call("GET", "/circuits/c1")).json.data).toMatchObject({
      clientId: "session",
      createdAt: "2026-01-01T00:00:00.000Z",
      path: {
        nodes: [
          { id: "r-a", entity: "routers" },
          { id: "r-b", entity: "routers" },
        ],
        links: [{ id: "l1", name: "l1", entity: "links" }],
      },
      service: { id: "s", entity: "services" },
      terminator: { id: "t", entity: "terminators" },
    });
    expect((await controller.admin("GET", "/sessions/session/route-path")).json.data).toEqual({
      routePath: ["r-a", "r-b"],
    });
    expect((await controller.admin("GET", "/sessions/unknown/route-path")).json.data).toEqual({ routePath: [] });
    expect((await call("DELETE", "/circuits/c1", { immediate: true })).status).toBe(200);
    expect((await call("DELETE", "/circuits/c2")).status).toBe(200);
    expect((await call("DELETE", "/circuits/c2", { immediate: true })).status).toBe(404);
    expect(controller.network.ended.slice(0, 2)).toEqual([
      { id: "c1", isImmediate: true },
      { id: "c2", isImmediate: false },
    ]);
  });
});

test("the typed client calls it like the others", async () => {
  const { port, pki } = controller;
  const client = createClient("fabric", { baseUrl: `https://localhost:${port}`, ca: pki.caBundlePem, token });
  controller.network.inspected = { success: true, errors: [], values: [{ appId: "a", name: "n", value: "v" }] };
  const { data } = await client.inspect({ body: { appRegex: "a", requestedValues: ["n"] } });
  expect(data.values).toEqual([{ appId: "a", name: "n", value: "v" }]);
  const links = await client.listLinks({ query: { filter: "true limit 1" } });
  expect(links.meta.pagination.limit).toBe(1);
  await client.patchLink({ params: { id: "l1" }, body: { down: false } });
  await client.deleteLink({ params: { id: "l1" } });
  await expect(client.detailLink({ params: { id: "l1" } })).rejects.toMatchObject({ status: 404, code: "NOT_FOUND" });
  client.close();
});
