import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { extJwtSigner } from "../api/testing/ext-jwt-signer.ts";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

const primary = {
  cert: { allowed: true, allowExpiredCerts: false },
  extJwt: { allowed: false, allowedSigners: [] as string[] },
  updb: {
    allowed: true,
    lockoutDurationMinutes: 10,
    maxAttempts: 3,
    minPasswordLength: 8,
    requireMixedCase: true,
    requireNumberChar: false,
    requireSpecialChar: true,
  },
};
const policy = (name: string, more: object = {}) => ({
  name,
  primary,
  secondary: { requireTotp: false, requireExtJwtSigner: null },
  ...more,
});
const shown = async (id: string) => (await c.admin("GET", `/auth-policies/${id}`)).json.data;

describe("auth policies over the Management API", () => {
  test("are created, shown, listed, filtered by their inner fields, and deleted", async () => {
    const id = await c.make("auth-policies", policy("strict", { tags: { a: 1 } }));
    expect(await shown(id)).toMatchObject({
      id,
      name: "strict",
      primary,
      secondary: { requireTotp: false, requireExtJwtSigner: null },
      tags: { a: 1 },
      _links: { self: { href: `./auth-policies/${id}` } },
    });
    const filter = encodeURIComponent("primary.updb.maxAttempts = 3 and not primary.extJwt.allowed = true");
    const { json } = await c.admin("GET", `/auth-policies?filter=${filter}`);
    expect(json.data.map((each: { id: string }) => each.id)).toEqual([id]);
    expect((await c.admin("DELETE", `/auth-policies/${id}`)).json).toEqual({ data: {}, meta: {} });
    expect((await c.admin("GET", `/auth-policies/${id}`)).status).toBe(404);
    expect((await c.admin("DELETE", `/auth-policies/${id}`)).status).toBe(404);
  });

  test.each([
    ["minPasswordLength", 0, 5],
    ["minPasswordLength", -7, 5],
    ["minPasswordLength", 5, 5],
    ["minPasswordLength", 100, 100],
    ["maxAttempts", -1, 0],
    ["maxAttempts", 0, 0],
    ["lockoutDurationMinutes", -1, 0],
    ["lockoutDurationMinutes", 2_147_483_647, 2_147_483_647],
  ])("5.6: %s of %d becomes %d", async (field, given, stored) => {
    const id = await c.make("auth-policies", policy(`value ${field} ${given}`));
    await c.admin("PATCH", `/auth-policies/${id}`, { primary: { updb: { [field]: given } } });
    expect((await shown(id)).primary.updb).toEqual({ ...primary.updb, [field]: stored });
  });

  test.each([
    ["minPasswordLength", 101],
    ["maxAttempts", 2_147_483_648],
    ["lockoutDurationMinutes", Number.MAX_SAFE_INTEGER],
  ])("%s of %d is refused", async (field, given) => {
    const body = policy("too much", { primary: { ...primary, updb: { ...primary.updb, [field]: given } } });
    const answer = await c.admin("POST", "/auth-policies", body);
    expect(answer.status).toBe(400);
    expect(answer.json.error).toMatchObject({
      code: "COULD_NOT_VALIDATE",
      cause: { field: `primary.updb.${field}`, value: String(given) },
    });
  });

  test("every inner field has to be there on create and replace", async () => {
    const id = await c.make("auth-policies", policy("complete"));
    const paths = Object.entries(primary).flatMap(([group, fields]) => [
      [group],
      ...Object.keys(fields).map((field) => [group, field]),
    ]);
    for (const path of [...paths.map((each) => ["primary", ...each]), ["primary"], ["secondary"], ["name"]]) {
      const body = structuredClone(policy("incomplete")) as unknown as Record<string, never>;
      const parent = path.slice(0, -1).reduce<Record<string, never>>((at, key) => at[key]!, body);
      delete parent[path.at(-1)!];
      const [post, put] = [
        await c.admin("POST", "/auth-policies", body),
        await c.admin("PUT", `/auth-policies/${id}`, body),
      ];
      for (const answer of [post, put]) {
        expect([answer.status, answer.json.error.cause.field]).toEqual([400, path.join(".")]);
      }
    }
    const body = policy("incomplete", { secondary: { requireExtJwtSigner: null } });
    expect((await c.admin("POST", "/auth-policies", body)).json.error.cause).toMatchObject({
      field: "secondary.requireTotp",
      reason: "secondary.requireTotp in body is required",
    });
  });

  test("2.6: a PATCH touches only the leaves that are there; null is not given", async () => {
    const id = await c.make("auth-policies", policy("patched"));
    const before = await shown(id);
    await c.admin("PATCH", `/auth-policies/${id}`, { primary: { updb: { requireNumberChar: true } } });
    expect((await shown(id)).primary).toEqual({ ...primary, updb: { ...primary.updb, requireNumberChar: true } });
    await c.admin("PATCH", `/auth-policies/${id}`, {
      name: null,
      primary: { cert: null, extJwt: { allowed: true, allowedSigners: null }, updb: { requireNumberChar: false } },
      secondary: null,
    });
    expect(await shown(id)).toMatchObject({
      name: before.name,
      primary: { ...primary, extJwt: { allowed: true, allowedSigners: [] } },
      secondary: before.secondary,
    });
    expect((await c.admin("PATCH", `/auth-policies/${id}`, {})).status).toBe(200);
  });

  test("a PUT replaces all, the required signer that it leaves out too", async () => {
    const required = await c.make("external-jwt-signers", extJwtSigner("put"));
    const secondary = { requireTotp: true, requireExtJwtSigner: required };
    const id = await c.make("auth-policies", policy("replaced", { secondary, tags: { a: true } }));
    expect((await shown(id)).secondary).toEqual(secondary);
    const body = policy("replaced by", { secondary: { requireTotp: false } });
    expect((await c.admin("PUT", `/auth-policies/${id}`, body)).status).toBe(200);
    expect(await shown(id)).toMatchObject({
      name: "replaced by",
      secondary: { requireTotp: false, requireExtJwtSigner: null },
      tags: {},
    });
  });

  test.each([
    ["primary", { extJwt: { allowed: true, allowedSigners: ["unknown"] } }, "primary.extJwt.allowedExtJwtSigners[0]"],
    ["secondary", { requireTotp: false, requireExtJwtSigner: "unknown" }, "secondary.requiredExtJwtSigner"],
  ])("5.6: a signer that does not exist in %s is 404 naming the place", async (part, change, field) => {
    const body = policy("unknown signer", { [part]: part === "primary" ? { ...primary, ...change } : change });
    const created = await c.admin("POST", "/auth-policies", body);
    const id = await c.make("auth-policies", policy(`unknown ${part}`));
    const patched = await c.admin("PATCH", `/auth-policies/${id}`, { [part]: change });
    for (const answer of [created, patched]) {
      expect(answer.status).toBe(404);
      expect(answer.json.error).toMatchObject({ code: "NOT_FOUND", cause: { field, value: "unknown" } });
    }
    expect((await c.admin("GET", "/auth-policies?filter=name=%22unknown%20signer%22")).json.data).toEqual([]);
  });

  test("1.4: names are unique and not empty, on create and on change", async () => {
    await c.make("auth-policies", policy("taken"));
    const id = await c.make("auth-policies", policy("mine"));
    const cases: [string, string][] = [
      ["taken", "name must be unique"],
      ["", "name is required"],
      [" ", "name is required"],
    ];
    for (const [name, reason] of cases) {
      const answers = [
        await c.admin("POST", "/auth-policies", policy(name)),
        await c.admin("PUT", `/auth-policies/${id}`, policy(name)),
        await c.admin("PATCH", `/auth-policies/${id}`, { name }),
      ];
      for (const answer of answers) {
        expect([answer.status, answer.json.error.cause]).toEqual([400, { field: "name", reason, value: name }]);
      }
    }
    for (const [method, body] of [
      ["GET", undefined],
      ["PUT", policy("x")],
      ["PATCH", { name: "x" }],
      ["DELETE", undefined],
    ] as const) {
      const answer = await c.admin(method, "/auth-policies/unknown", body);
      expect(answer.json.error).toMatchObject({
        code: "NOT_FOUND",
        cause: { code: "UNHANDLED", message: "authPolicy with id unknown not found" },
      });
    }
  });

  test("4.6: one that identities have is not deleted: 409 naming them", async () => {
    const id = await c.make("auth-policies", policy("used"));
    const user = await c.make("identities", { name: "user", type: "User", isAdmin: false, authPolicyId: id });
    const answer = await c.admin("DELETE", `/auth-policies/${id}`);
    expect(answer.status).toBe(409);
    expect(answer.json.error).toMatchObject({
      code: "CAN_NOT_DELETE_REFERENCED_ENTITY",
      cause: { field: "authPolicyId", reason: expect.stringContaining(user) },
    });
    await c.admin("PATCH", `/identities/${user}`, { authPolicyId: "default" });
    expect((await c.admin("DELETE", `/auth-policies/${id}`)).status).toBe(200);
  });

  test("4.3: the default one may be changed, and never deleted", async () => {
    expect(await shown("default")).toMatchObject({
      name: "Default",
      primary: {
        cert: { allowed: true, allowExpiredCerts: true },
        extJwt: { allowed: true, allowedSigners: [] },
        updb: { allowed: true, minPasswordLength: 5, maxAttempts: 0 },
      },
      secondary: { requireTotp: false, requireExtJwtSigner: null },
    });
    expect((await c.admin("PATCH", "/auth-policies/default", { tags: { a: "b" } })).status).toBe(200);
    expect((await c.admin("DELETE", "/auth-policies/default")).status).toBe(409);
    const id = await c.make("auth-policies", policy("instead"));
    await c.ctx.store.db.updateTable("identity").set({ auth_policy_id: id }).execute();
    const answer = await c.admin("DELETE", "/auth-policies/default");
    await c.ctx.store.db.updateTable("identity").set({ auth_policy_id: "default" }).execute();
    expect([answer.status, answer.json.error.code]).toEqual([400, "ENTITY_CAN_NOT_BE_DELETED"]);
  });

  test("an identity of an unknown policy is refused: 404", async () => {
    const body = { name: "lost", type: "User", isAdmin: false, authPolicyId: "unknown" };
    const answer = await c.admin("POST", "/identities", body);
    expect([answer.status, answer.json.error.cause.message]).toEqual([404, "authPolicy with id unknown not found"]);
  });

  test("are for administrators alone", async () => {
    const id = await c.make("identities", { name: "plain", type: "User", isAdmin: false });
    await c.make("authenticators", { identityId: id, method: "updb", username: "plain", password: "plain" });
    const token = await c.login("plain", "plain");
    for (const collection of ["auth-policies", "external-jwt-signers"]) {
      const answer = await c.call("GET", `/edge/management/v1/${collection}`, { token });
      expect([answer.status, answer.json.error.code]).toEqual([401, "UNAUTHORIZED"]);
    }
  });
});
