import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { testReplica } from "../../model/testing/changing-replicas.ts";
import { startFabricClient } from "../testing/fabric-client.ts";

const FINGERPRINT = "aa".repeat(20);

type FabricClient = Awaited<ReturnType<typeof startFabricClient>>;

let controller: FabricClient["controller"];
let call: FabricClient["call"];
let listed: FabricClient["listed"];
beforeAll(async () => {
  ({ controller, call, listed } = await startFabricClient());
});
afterAll(() => controller.close());

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

  test("several controllers are one, from which a controller that is gone can be removed", async () => {
    const { replicas } = controller;
    const before = replicas.replicas();
    replicas.isShared = true;
    replicas.set([testReplica("c1", 1, { leads: true }), testReplica("c2", 2, { isLive: false })]);
    const member = { version: "v1.6.20", voter: true };
    expect((await call("GET", "/cluster/list-members")).json.data).toEqual([
      { ...member, id: "c1", address: "tls:localhost:1", leader: true, connected: true },
      { ...member, id: "c2", address: "tls:localhost:2", leader: false, connected: false },
    ]);
    expect((await call("POST", "/cluster/remove-member", { id: "c2" })).status).toBe(200);
    expect(replicas.removed).toEqual(["c2"]);
    const live = await call("POST", "/cluster/remove-member", { id: "c1" });
    expect([live.status, live.json.error.cause.message]).toEqual([400, expect.stringContaining("stop it first")]);
    for (const [path, body] of [
      ["add-member", { address: "tls:a:1", isVoter: true }],
      ["transfer-leadership", {}],
    ] as const) {
      const answer = await call("POST", `/cluster/${path}`, body);
      expect([answer.status, answer.json.error.code]).toEqual([501, "NOT_IMPLEMENTED"]);
      expect(answer.json.error.cause.message).toMatch(/start it|stop the one/);
    }
    replicas.isShared = false;
    replicas.set(before);
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

  test("with another certificate have to connect again", async () => {
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
