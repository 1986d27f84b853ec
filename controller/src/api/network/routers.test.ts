import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let controller: TestController;
beforeAll(async () => {
  controller = await startTestController();
});
afterAll(() => controller.close());

const admin: TestController["admin"] = (...of) => controller.admin(...of);
const errorOf = async (...of: Parameters<TestController["admin"]>) => {
  const { status, json } = await admin(...of);
  return [status, json.error?.code, json.error?.cause?.field];
};

describe.each(["transit-routers", "routers"])("/%s", (collection) => {
  const name = `of-${collection}`;

  test("makes transit routers, shows and changes them, and deletes them", async () => {
    const fields = { name, cost: 4, noTraversal: true, disabled: true, tags: { a: "b" } };
    const id = await controller.make(collection, fields);
    const { data } = (await admin("GET", `/${collection}/${id}`)).json;
    expect(data).toMatchObject({
      _links: { self: { href: `./transit-routers/${id}` } },
      ...fields,
      fingerprint: null,
      isOnline: false,
      isVerified: false,
      unverifiedCertPem: null,
      unverifiedFingerprint: null,
    });
    expect(typeof data.enrollmentJwt).toBe("string");
    const claims = JSON.parse(Buffer.from(data.enrollmentJwt.split(".")[1], "base64url").toString());
    expect(claims).toMatchObject({ em: "trott", sub: id, jti: data.enrollmentToken });
    expect(Date.parse(data.enrollmentExpiresAt)).toBeGreaterThan(Date.now());

    // It is no edge router.
    expect((await admin("GET", `/edge-routers/${id}`)).status).toBe(404);
    expect(await errorOf("PATCH", `/edge-routers/${id}`, { cost: 1 })).toEqual([
      409,
      "CAN_NOT_UPDATE_ROUTER",
      undefined,
    ]);
    expect(await errorOf("DELETE", `/edge-routers/${id}`)).toEqual([409, "CAN_NOT_UPDATE_ROUTER", undefined]);

    expect((await admin("PATCH", `/${collection}/${id}`, { cost: 5, tags: null })).status).toBe(200);
    expect((await admin("GET", `/${collection}/${id}`)).json.data).toMatchObject({ cost: 5, tags: { a: "b" } });
    expect((await admin("PUT", `/${collection}/${id}`, { name: `${name}-2` })).status).toBe(200);
    expect((await admin("GET", `/${collection}/${id}`)).json.data).toMatchObject({
      name: `${name}-2`,
      cost: 0,
      noTraversal: false,
      disabled: false,
      tags: {},
    });
    expect((await admin("DELETE", `/${collection}/${id}`)).status).toBe(200);
    expect(await errorOf("DELETE", `/${collection}/${id}`)).toEqual([404, "NOT_FOUND", undefined]);
    expect(await errorOf("GET", `/${collection}/${id}`)).toEqual([404, "NOT_FOUND", undefined]);
  });

  test("shows edge routers, too, but does not change them", async () => {
    const id = await controller.make("edge-routers", { name });
    const listed = await admin("GET", `/${collection}?filter=${encodeURIComponent(`name = "${name}"`)}`);
    expect(listed.json.data).toMatchObject([{ id, name, isVerified: false }]);
    expect(listed.json.meta.filterableFields.toSorted()).toEqual(
      [
        ...["id", "createdAt", "updatedAt", "tags", "isSystem", "name", "fingerprint"],
        ...["cost", "noTraversal", "disabled", "connected", "configs"],
      ].toSorted(),
    );
    expect(await errorOf("PATCH", `/${collection}/${id}`, { cost: 1 })).toEqual([
      409,
      "CAN_NOT_UPDATE_ROUTER",
      undefined,
    ]);
    expect(await errorOf("PUT", `/${collection}/${id}`, { name })).toEqual([409, "CAN_NOT_UPDATE_ROUTER", undefined]);
    expect((await admin("DELETE", `/${collection}/${id}`)).status).toBe(200);
  });

  test("gives no name twice, whatever the kind", async () => {
    const id = await controller.make("edge-routers", { name });
    expect(await errorOf("POST", `/${collection}`, { name })).toEqual([400, "COULD_NOT_VALIDATE", "name"]);
    await admin("DELETE", `/edge-routers/${id}`);
    const transit = await controller.make(collection, { name });
    expect(await errorOf("POST", "/edge-routers", { name })).toEqual([400, "COULD_NOT_VALIDATE", "name"]);
    await admin("DELETE", `/${collection}/${transit}`);
  });

  test.each([
    [{}, "name"],
    [{ name: "" }, "name"],
    [{ name: "x", cost: 65_536 }, "cost"],
    [{ name: "x", cost: -1 }, "cost"],
  ])("refuses %j", async (body, field) => {
    expect(await errorOf("POST", `/${collection}`, body)).toEqual([400, "COULD_NOT_VALIDATE", field]);
  });

  test("is for administrators", async () => {
    expect((await controller.call("GET", `/edge/management/v1/${collection}`)).status).toBe(401);
  });
});

describe("a trace of an identity", () => {
  let id: string;
  beforeAll(async () => {
    id = await controller.make("identities", { name: "traced", type: "Device", isAdmin: false });
  });

  test("lasts as long as it is asked to", async () => {
    const enabled = await admin("PUT", `/identities/${id}/trace`, { enabled: true, duration: "1h30m" });
    const { traceId, until } = enabled.json.data;
    expect(enabled.json.data.enabled).toBe(true);
    expect(traceId).toMatch(/^[0-9a-f-]{36}$/);
    expect(Math.abs(Date.parse(until) - Date.now() - 5_400_000)).toBeLessThan(60_000);
    expect(controller.model.traces.of(id)).toMatchObject({ traceId, channelMask: 0xffff_ffff });
    controller.clock.offsetMs = 5_400_001;
    expect(controller.model.traces.of(id)).toBeUndefined();
    controller.clock.offsetMs = 0;
  });

  test("has the id that is asked for, and ends when it is switched off", async () => {
    const spec = { enabled: true, duration: "5m", traceId: "mine", channels: ["selectPath"] };
    expect((await admin("PUT", `/identities/${id}/trace`, spec)).json.data.traceId).toBe("mine");
    expect(controller.model.traces.of(id)?.channelMask).toBe(1);
    for (const [channels, mask] of [
      [["establishPath"], 2],
      [["selectPath", "establishPath"], 3],
      [["selectPath", "all"], 0xffff_ffff],
    ]) {
      expect((await admin("PUT", `/identities/${id}/trace`, { ...spec, channels })).status).toBe(200);
      expect(controller.model.traces.of(id)?.channelMask).toBe(mask);
    }
    const unknown = await admin("PUT", `/identities/${id}/trace`, { ...spec, channels: ["path"] });
    expect([unknown.status, unknown.json.error.cause.field]).toEqual([400, "channels.0"]);
    for (const off of [{ enabled: false }, {}]) {
      expect((await admin("PUT", `/identities/${id}/trace`, off)).json.data).toEqual({
        until: "0001-01-01T00:00:00.000Z",
      });
    }
    expect(controller.model.traces.of(id)).toBeUndefined();
  });

  test.each([
    [{ enabled: true }, "duration"],
    [{ enabled: true, duration: "soon" }, "duration"],
    [{ enabled: true, duration: "99999999h" }, "duration"],
    [{ enabled: true, duration: "5m", traceId: "x".repeat(201) }, "traceId"],
    [{ enabled: true, duration: "5m", channels: ["all", "x"] }, "channels.1"],
  ])("is refused for %j", async (spec, field) => {
    expect(await errorOf("PUT", `/identities/${id}/trace`, spec)).toEqual([400, "COULD_NOT_VALIDATE", field]);
  });

  test("needs an identity", async () => {
    const spec = { enabled: true, duration: "5m" };
    expect(await errorOf("PUT", "/identities/unknown/trace", spec)).toEqual([404, "NOT_FOUND", undefined]);
    expect(await errorOf("PUT", "/identities/unknown/trace", { enabled: false })).toEqual([
      404,
      "NOT_FOUND",
      undefined,
    ]);
  });
});

describe("what a controller says of itself", () => {
  test("its capabilities, protocols and (no) other controllers", async () => {
    const get = async (path: string) => (await controller.call("GET", path)).json;
    for (const api of ["client", "management"]) {
      expect((await get(`/edge/${api}/v1/enumerated-capabilities`)).data).toEqual([
        ...["OIDC_AUTH", "HA_CONTROLLER", "OIDC_AUTH_WITH_CSR"],
      ]);
    }
    expect((await get("/edge/client/v1/protocols")).data).toEqual({
      https: { address: `localhost:${controller.port}` },
    });
    const controllers = (await admin("GET", '/controllers?filter=isOnline%20and%20name%20contains%20"x"')).json;
    expect(controllers.data).toEqual([]);
    expect(controllers.meta.filterableFields).toContain("lastJoinedAt");
    expect(await errorOf("GET", "/controllers?filter=nothing")).toEqual([400, "INVALID_FILTER", undefined]);
  });

  test("the number of everything, to every full session", async () => {
    const identity = await controller.make("identities", {
      name: "counting",
      type: "Default",
      isAdmin: false,
      enrollment: { updb: "counting" },
    });
    const { data } = (await admin("GET", `/identities/${identity}`)).json;
    await controller.call("POST", `/edge/client/v1/enroll?method=updb&token=${data.enrollment.updb.token}`, {
      body: { username: "counting", password: "counting" },
    });
    const token = await controller.login("counting", "counting");
    const before = (await controller.call("GET", "/edge/management/v1/summary", { token })).json.data;
    expect(Object.keys(before).toSorted()).toEqual(
      [
        ...["apiSessionCertificates", "apiSessions", "authPolicies", "authenticators", "cas", "configTypes", "configs"],
        ...["controllers", "edgeRouterPolicies", "enrollments", "eventualEvents", "externalJwtSigners", "identities"],
        ...["identityTypes", "mfas", "postureCheckTypes", "postureChecks", "revocations", "routers", "routers.edge"],
        ...["serviceEdgeRouterPolicies", "servicePolicies", "services", "services.edge", "sessions", "terminators"],
      ].toSorted(),
    );
    await controller.make("transit-routers", { name: "counted" });
    const after = (await controller.call("GET", "/edge/management/v1/summary", { token })).json.data;
    expect(after).toEqual({ ...before, routers: before.routers + 1, enrollments: before.enrollments + 1 });
    expect((await controller.call("GET", "/edge/management/v1/summary")).status).toBe(401);
  });
});

describe("services through the Client API", () => {
  test("are changed by administrators only", async () => {
    const id = await controller.make("services", { name: "fixed", encryptionRequired: true, roleAttributes: ["a"] });
    const path = `/edge/client/v1/services/${id}`;
    const token = await controller.login("admin", "admin");
    const user = await controller.login("counting", "counting");
    for (const method of ["PUT", "PATCH", "DELETE"]) {
      const body = method === "DELETE" ? undefined : { name: "taken over" };
      expect((await controller.call(method, path, { token: user, body })).status).toBe(401);
    }
    expect((await controller.call("PATCH", path, { token, body: { roleAttributes: ["b"] } })).status).toBe(200);
    const put = { name: "renamed", encryptionRequired: false };
    expect((await controller.call("PUT", path, { token, body: put })).status).toBe(200);
    expect((await admin("GET", `/services/${id}`)).json.data).toMatchObject({
      name: "renamed",
      encryptionRequired: true,
      roleAttributes: null,
    });
    expect((await controller.call("DELETE", path, { token })).status).toBe(200);
    expect((await admin("GET", `/services/${id}`)).status).toBe(404);
  });
});
