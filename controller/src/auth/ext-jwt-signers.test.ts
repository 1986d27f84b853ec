import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { authPolicy } from "../api/testing/auth-policy.ts";
import { extJwtSigner } from "../api/testing/ext-jwt-signer.ts";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import { ExtJwtSigners } from "../model/identity/ext-jwt-signers.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

describe("external JWT signers over the Management API", () => {
  test("have every field, with the defaults that clients expect", async () => {
    const id = await c.make("external-jwt-signers", extJwtSigner("plain"));
    expect((await c.admin("GET", `/external-jwt-signers/${id}`)).json.data).toMatchObject({
      audience: "a",
      certPem: null,
      claimsProperty: "sub",
      clientId: null,
      commonName: "",
      enabled: true,
      externalAuthUrl: null,
      fingerprint: null,
      issuer: "plain",
      jwksEndpoint: "https://idp.example/jwks",
      kid: null,
      notAfter: "0001-01-01T00:00:00.000Z",
      notBefore: "0001-01-01T00:00:00.000Z",
      scopes: null,
      targetToken: "ACCESS",
      useExternalId: false,
    });
    const change = {
      claimsProperty: "email",
      clientId: "c",
      externalAuthUrl: "https://idp.example",
      kid: "k",
      scopes: ["openid", "email"],
      targetToken: "ID",
      useExternalId: true,
    };
    expect((await c.admin("PATCH", `/external-jwt-signers/${id}`, change)).status).toBe(200);
    expect((await c.admin("GET", `/external-jwt-signers/${id}`)).json.data).toMatchObject(change);
    expect((await c.admin("PUT", `/external-jwt-signers/${id}`, extJwtSigner("plain"))).status).toBe(200);
    expect((await c.admin("GET", `/external-jwt-signers/${id}`)).json.data).toMatchObject({
      claimsProperty: "sub",
      externalAuthUrl: null,
      kid: null,
      scopes: null,
      targetToken: "ACCESS",
      useExternalId: false,
    });
  });

  test.each([
    ["audience", { audience: undefined }, "audience in body is required"],
    ["audience", { audience: "" }, "audience is required"],
    ["issuer", { issuer: "" }, "issuer is required"],
    ["name", { name: "" }, "name is required"],
    ["enabled", { enabled: undefined }, "enabled in body is required"],
    ["targetToken", { targetToken: "REFRESH" }, "targetToken in body should be one of [ACCESS ID]"],
    ["jwksEndpoint", { jwksEndpoint: "not a url" }, expect.stringContaining("must be of type uri")],
    ["externalAuthUrl", { externalAuthUrl: "not a url" }, expect.stringContaining("expected a URL")],
    ["externalAuthUrl", { externalAuthUrl: "javascript:alert(1)" }, expect.stringContaining("expected a URL")],
    ["jwksEndpoint", { jwksEndpoint: "file:///etc/passwd" }, expect.stringContaining("must be of type uri")],
  ])("%s: %j is refused", async (field, change, reason) => {
    const answer = await c.admin("POST", "/external-jwt-signers", { ...extJwtSigner("refused"), ...change });
    expect(answer.status).toBe(400);
    expect(answer.json.error).toMatchObject({ code: "COULD_NOT_VALIDATE", cause: { field, reason } });
  });

  test("may have no audience, by null, which takes one away in a PUT and changes nothing in a PATCH", async () => {
    const id = await c.make("external-jwt-signers", { ...extJwtSigner("no audience"), audience: null });
    const audience = async () => (await c.admin("GET", `/external-jwt-signers/${id}`)).json.data.audience;
    expect(await audience()).toBe("");
    await c.admin("PATCH", `/external-jwt-signers/${id}`, { audience: "a" });
    await c.admin("PATCH", `/external-jwt-signers/${id}`, { audience: null });
    expect(await audience()).toBe("a");
    await c.admin("PUT", `/external-jwt-signers/${id}`, { ...extJwtSigner("no audience"), audience: null });
    expect(await audience()).toBe("");
  });

  test("5.5: exactly one of certPem and jwksEndpoint", async () => {
    const certPem = c.pki.caBundlePem;
    const none = await c.admin("POST", "/external-jwt-signers", { ...extJwtSigner("none"), jwksEndpoint: null });
    const both = await c.admin("POST", "/external-jwt-signers", { ...extJwtSigner("both"), certPem });
    expect(none.json.error).toMatchObject({
      code: "REFERENCED_ENTITY_NOT_FOUND",
      cause: { reason: "jwksEndpoint or certPem is required" },
    });
    expect([both.status, none.status]).toEqual([400, 400]);
    const broken = await c.admin("POST", "/external-jwt-signers", {
      ...extJwtSigner("broken"),
      jwksEndpoint: null,
      certPem: "no certificate",
    });
    expect([broken.status, broken.json.error.code]).toEqual([400, "INVALID_CERT_PEM"]);
    const id = await c.make("external-jwt-signers", extJwtSigner("one"));
    expect((await c.admin("PATCH", `/external-jwt-signers/${id}`, { jwksEndpoint: "" })).status).toBe(400);
    const leaf = c.pki.serverIdentity.leaf.toString();
    expect((await c.admin("PATCH", `/external-jwt-signers/${id}`, { certPem: leaf })).status).toBe(400);
    const switched = await c.admin("PATCH", `/external-jwt-signers/${id}`, { certPem: leaf, jwksEndpoint: "" });
    expect(switched.status).toBe(200);
    expect((await c.admin("GET", `/external-jwt-signers/${id}`)).json.data).toMatchObject({
      certPem: leaf,
      jwksEndpoint: null,
      fingerprint: expect.stringMatching(/^[0-9a-f]{40}$/),
      notAfter: c.pki.serverIdentity.leaf.validToDate.toISOString(),
    });
    const again = await c.admin("POST", "/external-jwt-signers", {
      ...extJwtSigner("again"),
      jwksEndpoint: null,
      certPem: leaf,
    });
    expect(again.json.error.cause.field).toBe("certPem");
    const two = await c.admin("POST", "/external-jwt-signers", {
      ...extJwtSigner("two"),
      jwksEndpoint: null,
      certPem: leaf + leaf,
    });
    expect(two.json.error.code).toBe("INVALID_CERT_PEM");
  });

  test("4.2: issuer, kid and name are unique; many have no kid", async () => {
    const id = await c.make("external-jwt-signers", { ...extJwtSigner("unique"), kid: "kid-1" });
    const cases: [string, object][] = [
      ["name", { name: "unique" }],
      ["issuer", { issuer: "unique" }],
      ["kid", { kid: "kid-1" }],
    ];
    for (const [field, change] of cases) {
      const other = { ...extJwtSigner(`other ${field}`), ...change };
      const answer = await c.admin("POST", "/external-jwt-signers", other);
      expect([answer.status, answer.json.error.cause.field]).toEqual([400, field]);
    }
    for (const name of ["no kid 1", "no kid 2"])
      await c.make("external-jwt-signers", { ...extJwtSigner(name), kid: "" });
    expect((await c.admin("PATCH", `/external-jwt-signers/${id}`, { kid: "kid-1" })).status).toBe(200);
  });

  test("4.6: one that a policy names is not deleted: 409 naming it", async () => {
    const id = await c.make("external-jwt-signers", extJwtSigner("referenced"));
    const extJwt = { allowed: true, allowedSigners: [id] };
    const allowing = await c.make("auth-policies", authPolicy("allowing", { extJwt }));
    const secondary = { requireTotp: false, requireExtJwtSigner: id };
    const requiring = await c.make("auth-policies", authPolicy("requiring", { secondary }));
    for (const [user, field] of [
      [allowing, "primary.extJwt.allowedSigners"],
      [requiring, "secondary.requireExtJwtSigner"],
    ]) {
      const answer = await c.admin("DELETE", `/external-jwt-signers/${id}`);
      expect([answer.status, answer.json.error.code]).toEqual([409, "CAN_NOT_DELETE_REFERENCED_ENTITY"]);
      expect(answer.json.error.cause).toMatchObject({ field, reason: expect.stringContaining(user ?? "") });
      await c.admin("DELETE", `/auth-policies/${user}`);
    }
    expect((await c.admin("DELETE", `/external-jwt-signers/${id}`)).status).toBe(200);
  });

  test("are listed to clients without a session: the enabled ones, and of them what a login needs", async () => {
    await c.make("external-jwt-signers", {
      ...extJwtSigner("public"),
      externalAuthUrl: "https://idp.example",
      kid: "hidden",
    });
    await c.make("external-jwt-signers", { ...extJwtSigner("private"), enabled: false });
    const { status, json } = await c.call("GET", "/edge/client/v1/external-jwt-signers?limit=100");
    expect(status).toBe(200);
    const names = json.data.map((each: { name: string }) => each.name);
    expect(names).toContain("public");
    expect(names).not.toContain("private");
    expect(json.data.find((each: { name: string }) => each.name === "public")).toEqual({
      _links: expect.anything(),
      id: expect.any(String),
      createdAt: expect.any(String),
      updatedAt: expect.any(String),
      tags: {},
      name: "public",
      audience: "a",
      clientId: null,
      ...{ enrollToCertEnabled: false, enrollToTokenEnabled: false },
      externalAuthUrl: "https://idp.example",
      scopes: null,
      targetToken: "ACCESS",
    });
    const asked = await c.call(
      "GET",
      `/edge/client/v1/external-jwt-signers?filter=${encodeURIComponent('kid="hidden"')}`,
    );
    expect([asked.status, asked.json.error.code]).toEqual([400, "INVALID_FILTER"]);
  });
});

test("a signer that enrolls and may log in an administrator is told of, once", async () => {
  const enrolls = { useExternalId: true, enrollToCertEnabled: true };
  const id = await c.make("external-jwt-signers", { ...extJwtSigner("enrolls"), ...enrolls });
  const warnings = async () => {
    const log = new RecordingLogger();
    const signers = new ExtJwtSigners({ ...c.ctx, log });
    for (const scopes of [["openid"], []]) await signers.update(id, { scopes });
    return log.entries.filter(({ level }) => level === "warn").map(({ fields }) => fields);
  };
  expect(await warnings()).toMatchObject([{ signerId: id, authPolicyId: "default" }]);
  const others = await c.make("external-jwt-signers", extJwtSigner("of administrators"));
  const allow = (allowedSigners: string[]) =>
    c.admin("PATCH", "/auth-policies/default", { primary: { extJwt: { allowed: true, allowedSigners } } });
  await allow([others]);
  expect(await warnings()).toEqual([]);
  await allow([]);
  await c.admin("PATCH", `/external-jwt-signers/${id}`, { enabled: false });
  expect(await warnings()).toEqual([]);
});
