import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

const identity = (name: string, more: object = {}) => ({ name, type: "User", isAdmin: false, ...more });

describe("identities over the Management API", () => {
  it("are created with every field, shown with every field, and deleted", async () => {
    const service = await c.make("services", { name: "hosted by alice", encryptionRequired: true });
    const created = await c.admin("POST", "/identities", {
      name: "alice",
      type: "Device",
      isAdmin: false,
      appData: { team: "x" },
      defaultHostingCost: 7,
      defaultHostingPrecedence: "required",
      externalId: "ext-1",
      roleAttributes: ["b", "a", "b"],
      serviceHostingCosts: { [service]: 5 },
      serviceHostingPrecedences: { [service]: "failed" },
      tags: { k: "v", n: 1, z: null },
      enrollment: { ott: true },
      unknownField: 1,
      authPolicyId: null,
    });
    expect(created.status).toBe(201);
    const { id } = created.json.data;
    expect(created.json).toEqual({ data: { _links: { self: { href: `./identities/${id}` } }, id }, meta: {} });
    const { data } = (await c.admin("GET", `/identities/${id}`)).json;
    expect(data).toMatchObject({
      name: "alice",
      typeId: "Device",
      type: { entity: "identity-types", id: "Device", name: "Device" },
      isAdmin: false,
      isDefaultAdmin: false,
      appData: { team: "x" },
      authPolicyId: "default",
      authPolicy: { id: "default", name: "Default" },
      defaultHostingCost: 7,
      defaultHostingPrecedence: "required",
      externalId: "ext-1",
      roleAttributes: ["a", "b"],
      serviceHostingCosts: { [service]: 5 },
      serviceHostingPrecedences: { [service]: "failed" },
      tags: { k: "v", n: 1, z: null },
      authenticators: {},
      hasApiSession: false,
      disabled: false,
      envInfo: {},
      sdkInfo: {},
    });
    expect(data._links["auth-policies"].href).toBe("./auth-policies/default");
    expect(data.enrollment.ott.token).toMatch(/^[0-9a-f-]{36}$/);
    const claims = JSON.parse(Buffer.from(data.enrollment.ott.jwt.split(".")[1], "base64url").toString());
    expect(claims).toMatchObject({
      iss: `https://localhost:${c.port}`,
      sub: id,
      aud: [""],
      jti: data.enrollment.ott.token,
      em: "ott",
      ctrls: [`tls:localhost:${c.port}`],
    });
    expect(claims.iat).toBeUndefined();
    expect((await c.admin("DELETE", `/identities/${id}`)).json).toEqual({ data: {}, meta: {} });
    const gone = await c.admin("GET", `/identities/${id}`);
    expect(gone.status).toBe(404);
    expect(gone.json.error).toMatchObject({
      code: "NOT_FOUND",
      cause: { code: "UNHANDLED", message: `identity with id ${id} not found` },
    });
  });

  it("refuse duplicate and empty names, the type Router and prefixed attributes, naming the field", async () => {
    await c.make("identities", identity("taken", { externalId: "taken-ext" }));
    const cases: [object, string, string][] = [
      [identity("taken"), "name", "duplicate value 'taken' in unique index on identities store"],
      [identity(""), "name", "name is required"],
      [identity("r", { type: "Router" }), "type", "may not create identities with given typeId"],
      [identity("p", { roleAttributes: ["#x"] }), "roleAttributes", "role attributes may not be prefixed with #"],
      [
        identity("e", { externalId: "taken-ext" }),
        "externalId",
        "duplicate value 'taken-ext' in unique index on identities store",
      ],
    ];
    for (const [body, field, reason] of cases) {
      const answer = await c.admin("POST", "/identities", body);
      expect([answer.status, answer.json.error.code]).toEqual([400, "COULD_NOT_VALIDATE"]);
      expect(answer.json.error.cause).toMatchObject({ field, reason });
    }
    const unknownPolicy = await c.admin("POST", "/identities", identity("u", { authPolicyId: "nope" }));
    expect([unknownPolicy.status, unknownPolicy.json.error.code]).toEqual([404, "NOT_FOUND"]);
  });

  it("app data is any object; tags are not", async () => {
    const appData = { team: { name: "x", members: [1, "two", null] }, on: true };
    const id = await c.make(
      "identities",
      identity("with app data", { appData, tags: { a: null, b: "t", c: true, d: 1 } }),
    );
    const shown = (await c.admin("GET", `/identities/${id}`)).json.data;
    expect([shown.appData, shown.tags]).toEqual([appData, { a: null, b: "t", c: true, d: 1 }]);
    for (const body of [{ appData: ["a"] }, { appData: "a" }, { tags: { a: {} } }, { tags: { a: ["b"] } }]) {
      expect((await c.admin("PATCH", `/identities/${id}`, body)).status).toBe(400);
    }
  });

  it("PATCH changes what is present and not null, PUT puts the rest back to its default", async () => {
    const id = await c.make(
      "identities",
      identity("patched", { roleAttributes: ["a"], tags: { t: "1" }, externalId: "px" }),
    );
    await c.admin("PATCH", `/identities/${id}`, { name: null, isAdmin: null, roleAttributes: ["z"] });
    expect((await c.admin("GET", `/identities/${id}`)).json.data).toMatchObject({ typeId: "User", isAdmin: false });
    await c.admin("PATCH", `/identities/${id}`, { type: "Service" });
    expect((await c.admin("GET", `/identities/${id}`)).json.data.typeId).toBe("Service");
    let data = (await c.admin("GET", `/identities/${id}`)).json.data;
    expect(data).toMatchObject({ name: "patched", roleAttributes: ["z"], tags: { t: "1" }, externalId: "px" });
    const put = await c.admin("PUT", `/identities/${id}`, identity("put"));
    expect(put.status).toBe(200);
    data = (await c.admin("GET", `/identities/${id}`)).json.data;
    expect(data).toMatchObject({ name: "put", roleAttributes: null, tags: {}, externalId: null });
    const clash = await c.admin("PATCH", `/identities/${id}`, { name: "taken" });
    expect([clash.status, clash.json.error.cause.reason]).toEqual([
      400,
      "duplicate value 'taken' in unique index on identities store",
    ]);
    expect((await c.admin("PATCH", "/identities/unknown", { name: "x" })).status).toBe(404);
  });

  it("the default administrator cannot be deleted", async () => {
    const [admin] = (await c.admin("GET", "/identities?filter=isDefaultAdmin")).json.data;
    const answer = await c.admin("DELETE", `/identities/${admin.id}`);
    expect([answer.status, answer.json.error.code]).toEqual([400, "ENTITY_CAN_NOT_BE_DELETED"]);
  });

  it("the default administrator stays an administrator, whatever its other fields become", async () => {
    const [admin] = (await c.admin("GET", "/identities?filter=isDefaultAdmin")).json.data;
    const { name } = admin;
    for (const [method, body] of [
      ["PATCH", { isAdmin: false }],
      ["PUT", { name, type: "User", isAdmin: false }],
    ] as const) {
      const answer = await c.admin(method, `/identities/${admin.id}`, body);
      expect([answer.status, answer.json.error?.code, answer.json.error?.cause.field]).toEqual([
        ...[400, "COULD_NOT_VALIDATE", "isAdmin"],
      ]);
    }
    expect((await c.admin("PUT", `/identities/${admin.id}`, { name, type: "Default", isAdmin: true })).status).toBe(
      200,
    );
    const { data } = (await c.admin("GET", `/identities/${admin.id}`)).json;
    expect(data).toMatchObject({ isAdmin: true, isDefaultAdmin: true });
    await expect(
      sql`UPDATE identity SET is_admin = false WHERE id = ${admin.id}`.execute(c.ctx.store.db),
    ).rejects.toThrow(/identity_default_admin_is_admin/);
  });

  it("are invited in one way only, and user names have 4 to 100 characters wherever one is set", async () => {
    const made = (enrollment: object) => c.admin("POST", "/identities", identity("invited", { enrollment }));
    const refusal = (answer: Awaited<ReturnType<typeof made>>) => [answer.status, answer.json.error?.cause?.field];
    for (const enrollment of [
      { ott: true, updb: "username" },
      { ott: true, ottca: "a.ca" },
      { ottca: "a.ca", updb: "username" },
    ]) {
      expect(refusal(await made(enrollment))).toEqual([400, "enrollment"]);
    }
    for (const updb of ["abc", "x".repeat(101)]) {
      expect(refusal(await made({ updb }))).toEqual([400, "enrollment.updb"]);
    }
    const { id } = (await made({ ott: false, ottca: "", updb: "" })).json.data;
    expect((await c.admin("GET", `/identities/${id}`)).json.data.enrollment).toEqual({});
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const invite = (username: string) =>
      c.admin("POST", "/enrollments", { identityId: id, method: "updb", expiresAt, username });
    expect(refusal(await invite("abc"))).toEqual([400, "username"]);
    expect(refusal(await invite(""))).toEqual([400, "username"]);
    expect((await invite("abcd")).status).toBe(201);
  });

  it("lists are filtered, sorted and paged, with the total", async () => {
    for (const n of [1, 2, 3, 4, 5])
      await c.make("identities", identity(`list-${n}`, { roleAttributes: [`m${n % 2}`] }));
    const query = encodeURIComponent('name contains "list-" sort by name desc skip 1 limit 2');
    const answer = await c.admin("GET", `/identities?filter=${query}`);
    expect(answer.json.data.map((each: { name: string }) => each.name)).toEqual(["list-4", "list-3"]);
    expect(answer.json.meta.pagination).toEqual({ limit: 2, offset: 1, totalCount: 5 });
    expect(answer.json.meta.filterableFields).toContain("roleAttributes");
    const odd = await c.admin("GET", `/identities?filter=${encodeURIComponent('anyOf(roleAttributes) = "m1"')}`);
    expect(odd.json.meta.pagination.totalCount).toBe(3);
    const byRole = await c.admin("GET", `/identities?roleFilter=${encodeURIComponent("#m0")}`);
    expect(byRole.json.meta.pagination.totalCount).toBe(2);
    const attributes = await c.admin(
      "GET",
      `/identity-role-attributes?filter=${encodeURIComponent('id contains "m"')}`,
    );
    expect(attributes.json.data).toEqual(["m0", "m1"]);
    const bad = await c.admin("GET", `/identities?filter=${encodeURIComponent('passwordHash = "x"')}`);
    expect([bad.status, bad.json.error.code]).toEqual([400, "INVALID_FILTER"]);
  });

  it("disabling ends the sessions, and enabling lets in again", async () => {
    const id = await c.make("identities", identity("disabled-one"));
    await c.make("authenticators", { identityId: id, method: "updb", username: "disabled-one", password: "secret-1" });
    const token = await c.login("disabled-one", "secret-1");
    expect((await c.call("GET", "/edge/client/v1/current-identity", { token })).status).toBe(200);
    const disabled = await c.admin("POST", `/identities/${id}/disable`, { durationMinutes: 0 });
    expect([disabled.status, disabled.json]).toEqual([200, { data: {}, meta: {} }]);
    const listed = await c.admin("GET", "/identities?filter=disabled");
    expect(listed.json.data.map((each: { name: string }) => each.name)).toEqual(["disabled-one"]);
    expect((await c.call("GET", "/edge/client/v1/current-identity", { token })).status).toBe(401);
    await expect(c.login("disabled-one", "secret-1")).rejects.toThrow("INVALID_AUTH");
    await c.admin("POST", `/identities/${id}/enable`);
    await c.login("disabled-one", "secret-1");
  });
});
