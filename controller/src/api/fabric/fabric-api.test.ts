import { createClient } from "@sallyport/api";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Circuit } from "../../fabric/circuits/circuit.ts";
import type { LinkState } from "../../fabric/fabric.ts";
import { type Answer, startTestController, type TestController } from "../testing/test-controller.ts";

const FINGERPRINT = "aa".repeat(20);

let controller: TestController;
let token: string;
beforeAll(async () => {
  controller = await startTestController();
  token = await controller.login("admin", "admin");
});
afterAll(() => controller.close());

const call = (method: string, path: string, body?: unknown): Promise<Answer> =>
  controller.call(method, `/fabric/v1${path}`, { token, body });
const listed = async (path: string, filter: string): Promise<string[]> => {
  const answer = await call("GET", `${path}?filter=${encodeURIComponent(filter)}`);
  expect(answer.status, answer.text).toBe(200);
  return answer.json.data.map((each: { id: string }) => each.id);
};

describe("the Fabric API", () => {
  test("describes itself, and stands in the version", async () => {
    const document = await controller.call("GET", "/fabric/v1");
    expect(document.json).toMatchObject({
      openapi: "3.1.0",
      info: { title: "Sallyport Fabric API", version: "1.0.0" },
    });
    expect(Object.keys(document.json.paths)).toContain("/links/{id}");
    const version = await controller.call("GET", "/version");
    expect(version.json.data.apiVersions.fabric.v1.path).toBe("/fabric/v1");
  });

  test("is for administrators", async () => {
    for (const path of ["/routers", "/links", "/circuits/x", "/cluster/list-members"]) {
      expect((await controller.call("GET", `/fabric/v1${path}`)).status).toBe(401);
    }
    await controller.make("identities", {
      name: "mallory",
      type: "Default",
      isAdmin: false,
      enrollment: { updb: "mallory" },
    });
    expect(
      (await controller.call("POST", "/fabric/v1/inspections", { body: { appRegex: ".", requestedValues: [] } }))
        .status,
    ).toBe(401);
  });

  test("names its own versions in errors, also in those of paths that it does not have", async () => {
    const meta = { apiVersion: "1.0.0", apiEnrollmentVersion: "1.0.0" };
    for (const path of ["/nothing", "/routers/unknown", "/services?filter=(", ""]) {
      const answer = await call(path === "" ? "DELETE" : "GET", path);
      expect(answer.json.meta).toEqual(meta);
    }
    expect((await controller.admin("GET", "/nothing")).json.meta.apiVersion).toBe("0.0.1");
  });

  test("one controller alone is no cluster", async () => {
    for (const [method, path, body] of [
      ["GET", "list-members", undefined],
      ["POST", "add-member", { address: "tls:a:1", isVoter: true }],
      ["POST", "remove-member", { id: "a" }],
      ["POST", "transfer-leadership", {}],
    ] as const) {
      const answer = await call(method, `/cluster/${path}`, body);
      expect([answer.status, answer.json.error.code]).toEqual([400, "SERVER_NOT_RUNNING_IN_HA_MODE"]);
    }
    expect((await call("POST", "/cluster/add-member", {})).json.error.code).toBe("COULD_NOT_VALIDATE");
  });
});

describe("services", () => {
  test("are those of the Management API", async () => {
    const made = await call("POST", "/services", { name: "plain", tags: { a: "b" }, maxIdleTimeMillis: 5 });
    const { id } = made.json.data;
    expect(made.json.data._links.self.href).toBe(`./services/${id}`);
    expect((await call("GET", `/services/${id}`)).json.data).toMatchObject({
      _links: { self: { href: `./services/${id}` }, terminators: { href: `./services/${id}/terminators` } },
      name: "plain",
      maxIdleTimeMillis: 5,
      terminatorStrategy: "smartrouting",
      tags: { a: "b" },
    });
    expect((await controller.admin("GET", `/services/${id}`)).json.data).toMatchObject({
      name: "plain",
      encryptionRequired: false,
    });
    await controller.admin("PATCH", `/services/${id}`, { roleAttributes: ["kept"] });
    expect((await call("PUT", `/services/${id}`, { name: "renamed" })).status).toBe(200);
    expect((await call("PATCH", `/services/${id}`, { terminatorStrategy: "weighted" })).status).toBe(200);
    expect((await controller.admin("GET", `/services/${id}`)).json.data).toMatchObject({
      name: "renamed",
      roleAttributes: ["kept"],
      terminatorStrategy: "weighted",
      tags: {},
    });
    expect(await listed("/services", 'name = "renamed"')).toEqual([id]);
    expect((await call("DELETE", `/services/${id}`, { immediate: false })).status).toBe(200);
    expect((await call("DELETE", `/services/${id}`)).status).toBe(404);
  });

  test.each([
    [{}, 400, "COULD_NOT_VALIDATE", "name"],
    [{ name: "" }, 400, "COULD_NOT_VALIDATE", "name"],
    [{ name: "x", terminatorStrategy: "nope" }, 404, "NOT_FOUND", undefined],
    [{ name: 5 }, 400, "COULD_NOT_PARSE_BODY", undefined],
  ])("%j is refused", async (body, status, code, field) => {
    const answer = await call("POST", "/services", body);
    expect([answer.status, answer.json.error.code, answer.json.error.cause?.field]).toEqual([status, code, field]);
  });
});

describe("routers", () => {
  const router = { id: "plain-router", name: "plain router", fingerprint: FINGERPRINT.toUpperCase() };

  test("are made with the certificate that they have", async () => {
    expect((await call("POST", "/routers", { ...router, cost: 3, tags: { x: true } })).status).toBe(201);
    expect((await call("GET", "/routers/plain-router")).json.data).toMatchObject({
      name: "plain router",
      fingerprint: FINGERPRINT,
      connected: false,
      cost: 3,
      tags: { x: true },
    });
    expect(await controller.fabricModel.findRouter("plain-router")).toMatchObject({
      kind: "transit",
      fingerprint: FINGERPRINT,
      cost: 3,
    });
    expect((await controller.admin("GET", "/edge-routers/plain-router")).status).toBe(404);
    expect((await controller.admin("GET", "/transit-routers/plain-router")).json.data).toMatchObject({
      isVerified: true,
    });
  });

  test.each([
    [{ ...router, name: "another", fingerprint: "bb".repeat(20) }, "id"],
    [{ ...router, id: "other", fingerprint: "bb".repeat(20) }, "name"],
    [{ ...router, id: "other", name: "another" }, "fingerprint"],
    [{ ...router, id: "other", name: "another", fingerprint: "bb" }, "fingerprint"],
    [{ ...router, id: "not / an id", name: "another", fingerprint: "bb".repeat(20) }, "id"],
    [{ ...router, id: "", name: "another", fingerprint: "bb".repeat(20) }, "id"],
    [{ name: "another", fingerprint: "bb".repeat(20) }, "id"],
    [{ ...router, id: "other", name: "another", fingerprint: "bb".repeat(20), cost: 65_536 }, "cost"],
  ])("%j is refused for its %s", async (body, field) => {
    const answer = await call("POST", "/routers", body);
    expect([answer.status, answer.json.error.code, answer.json.error.cause.field]).toEqual([
      400,
      "COULD_NOT_VALIDATE",
      field,
    ]);
  });

  test("with another certificate have to connect anew", async () => {
    await call("PATCH", "/routers/plain-router", { fingerprint: FINGERPRINT, noTraversal: true });
    expect(controller.network.disconnected).toEqual([]);
    await call("PATCH", "/routers/plain-router", { fingerprint: "cc".repeat(20) });
    expect(controller.network.disconnected).toEqual(["plain-router"]);
    await call("PUT", "/routers/plain-router", { name: "plain" });
    expect((await call("GET", "/routers/plain-router")).json.data).toMatchObject({
      name: "plain",
      fingerprint: "cc".repeat(20),
      noTraversal: false,
      cost: 0,
    });
  });

  test("show what they say of themselves while they are connected", async () => {
    const id = await controller.make("edge-routers", { name: "edge one" });
    controller.online.set(id, {
      isOnline: true,
      hostname: "h",
      supportedProtocols: {},
      syncStatus: "SYNC_DONE",
      versionInfo: { version: "v1", revision: "r", buildDate: "d", os: "o", arch: "a" },
      linkListeners: [{ address: "tls:a:1", protocol: "tls" }],
    });
    expect(await listed("/routers", "connected")).toEqual([id]);
    expect((await call("GET", `/routers/${id}`)).json.data).toMatchObject({
      connected: true,
      versionInfo: { version: "v1", os: "o" },
      listenerAddresses: [{ address: "tls:a:1", protocol: "tls" }],
    });
    // Edge routers may be changed and deleted here, too.
    expect((await call("PATCH", `/routers/${id}`, { cost: 9 })).status).toBe(200);
    expect((await call("DELETE", `/routers/${id}`, { immediate: false })).status).toBe(200);
    controller.online.delete(id);
  });
});

describe("terminators", () => {
  test("join services and routers", async () => {
    const service = await controller.make("services", { name: "joined", encryptionRequired: true });
    const router = await controller.make("edge-routers", { name: "joining" });
    const ends = { service, router, binding: "transport", address: "tcp:localhost:1" };
    const made = await call("POST", "/terminators", { ...ends, hostId: "h", instanceId: "i", instanceSecret: "AAEC" });
    const { id } = made.json.data;
    expect((await call("GET", `/terminators/${id}`)).json.data).toMatchObject({
      hostId: "h",
      instanceId: "i",
      dynamicCost: 0,
      precedence: "default",
      router: { entity: "routers", id: router, name: "joining" },
      service: { entity: "services", id: service, name: "joined" },
    });
    expect(await listed(`/services/${service}/terminators`, "true")).toEqual([id]);
    expect(await listed(`/routers/${router}/terminators`, 'service.name = "joined"')).toEqual([id]);
    expect(await listed("/routers/unknown/terminators", "true")).toEqual([]);
    expect((await call("PATCH", `/terminators/${id}`, { cost: 7, precedence: "required" })).status).toBe(200);
    expect((await call("PATCH", `/terminators/${id}`, { router: "unknown" })).status).toBe(404);
    expect((await call("POST", "/terminators", { ...ends, service: "unknown" })).status).toBe(404);
    expect((await call("POST", "/terminators", { ...ends, binding: undefined })).json.error.cause.field).toBe(
      "binding",
    );
    expect((await call("DELETE", `/terminators/${id}`, { immediate: false })).status).toBe(200);
  });
});

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

describe("inspections", () => {
  test("are sent without an envelope; what is JSON is sent as JSON", async () => {
    controller.network.inspected = {
      success: false,
      errors: ["r1: silent"],
      values: [
        { appId: "r2", name: "links", value: '{"a":[1]}' },
        { appId: "r2", name: "stackdump", value: "{ no json" },
        { appId: "r2", name: "count", value: "5" },
        { appId: "r2", name: "deep", value: "[".repeat(100_000) + "]".repeat(100_000) },
      ],
    };
    const answer = await call("POST", "/inspections", { appRegex: ".*", requestedValues: ["links"] });
    expect(answer.json).toEqual({
      success: false,
      errors: ["r1: silent"],
      values: [
        { appId: "r2", name: "links", value: { a: [1] } },
        { appId: "r2", name: "stackdump", value: "{ no json" },
        { appId: "r2", name: "count", value: "5" },
        { appId: "r2", name: "deep", value: expect.stringMatching(/^\[{10}/) },
      ],
    });
    controller.network.inspected = { success: true, errors: [], values: [] };
    expect((await call("POST", "/inspections", { appRegex: "x", requestedValues: [] })).json).toEqual({
      success: true,
      errors: null,
      values: null,
    });
    expect((await call("POST", "/inspections", { appRegex: "x" })).json.error.cause.field).toBe("requestedValues");
    expect((await call("POST", "/inspections")).status).toBe(400);
  });
});
