/** Identities made of those whom an external signer knows. */
import { randomBytes } from "node:crypto";
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { createCsr, createKeyPair } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTokenIssuer, type TokenIssuer } from "../../auth/testing/token-issuer.ts";
import { MAX_ENROLLED_ATTRIBUTE_CHARACTERS, MAX_ENROLLED_ATTRIBUTES } from "../../auth/token-enrolling.ts";
import { authPolicy } from "../testing/auth-policy.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
let idp: TokenIssuer;
let count = 0;
beforeAll(async () => {
  idp = await startTokenIssuer();
  await idp.addKey("k1");
  await idp.addKey("gone");
  const jwks = { allowedNetworks: ["127.0.0.0/8"], caPem: idp.caPem };
  c = await startTestController({ auth: { ...CONTROLLER_DEFAULTS.auth, jwks } });
});
afterAll(async () => {
  await c.close();
  await idp.close();
});

interface Signer {
  readonly id: string;
  /** Claims of a token that it takes. */
  readonly claims: { readonly iss: string; readonly sub: string };
}

async function signer(more: object = {}): Promise<Signer> {
  count += 1;
  const iss = `https://idp-${count}.example`;
  const id = await c.make("external-jwt-signers", {
    ...{ name: `signer-${count}`, issuer: iss, audience: "sallyport", enabled: true, jwksEndpoint: idp.jwksUrl },
    ...{ useExternalId: true, enrollToCertEnabled: true, enrollToTokenEnabled: true },
    ...more,
  });
  return { id, claims: { iss, sub: `person-${count}` } };
}

const send = (tokens: readonly string[], body: unknown = {}, headers: Record<string, string> = {}) =>
  c.call("POST", "/edge/client/v1/enroll/token", {
    body,
    headers: { ...headers, authorization: tokens.map((token) => `Bearer ${token}`) },
  });
const enroll = async (claims: object, body?: unknown, headers?: Record<string, string>) =>
  send([await idp.token({ ...claims })], body, headers);
const codeOf = ({ status, json }: { status: number; json: { error?: { code: string } } }) => [status, json.error?.code];
const named = async (name: string) => {
  const { json } = await c.admin("GET", `/identities?filter=${encodeURIComponent(`name = "${name}"`)}`);
  return json.data[0];
};
const REFUSED = [400, "INVALID_ENROLLMENT_TOKEN"];
const NOT_ALLOWED = [409, "INVALID_ENROLLMENT_NOT_ALLOWED"];

describe("a token of a signer that allows it", () => {
  test("makes an identity that authenticates by tokens, and is told where", async () => {
    const { id, claims } = await signer({
      enrollAttributeClaimsSelector: "/realm/roles",
      enrollNameClaimsSelector: "email",
    });
    const answer = await enroll({ ...claims, email: "a@example.org", realm: { roles: ["x", "y"] } });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.json.data).toEqual({ controllers: [expect.objectContaining({ isOnline: true })] });
    const [{ apiAddresses }] = answer.json.data.controllers;
    expect(apiAddresses).toEqual({
      "edge-client": [{ url: `https://localhost:${c.port}/edge/client/v1`, version: "v1" }],
      "edge-oidc": [{ url: `https://localhost:${c.port}/oidc`, version: "v1" }],
    });
    expect(await named("a@example.org")).toMatchObject({
      ...{ externalId: claims.sub, roleAttributes: ["x", "y"], authPolicyId: "default", isAdmin: false },
      typeId: "Default",
    });
    const login = await c.call("POST", "/edge/client/v1/authenticate?method=ext-jwt", {
      headers: { authorization: `Bearer ${await idp.token(claims)}` },
    });
    expect(login.json.data).toMatchObject({ authenticatorId: `extJwtId:${id}` });
  });

  test("and a request for a certificate makes one that authenticates by it", async () => {
    const { claims } = await signer({ enrollToTokenEnabled: false });
    const key = await createKeyPair();
    const { json, status } = await enroll(claims, {
      clientCsr: await createCsr({ keyPem: key.keyPem, commonName: "x" }),
    });
    expect(status).toBe(200);
    expect(json.data.ca).toBe(c.pki.caBundlePem);
    const login = await c.call("POST", "/edge/client/v1/authenticate?method=cert", {
      ...{ cert: json.data.cert, key: key.keyPem },
    });
    expect(login.json.data.identity.name).toBe(claims.sub);
  });

  test("enrolls once, also when it comes many times at the same moment", async () => {
    const { claims } = await signer();
    const token = await idp.token(claims);
    const answers = await Promise.all(Array.from({ length: 8 }, () => send([token])));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(new Set(answers.map(({ status, json }) => (status === 200 ? "" : json.error.code)))).toEqual(
      new Set(["", "ENROLLMENT_IDENTITY_ALREADY_ENROLLED"]),
    );
  });

  test("may be the second of several, of any scheme of names", async () => {
    const { claims } = await signer();
    expect((await send(["nonsense", await idp.token(claims)])).status).toBe(200);
    const more = await signer();
    const beyond = [...Array.from({ length: 4 }, () => "nonsense"), await idp.token(more.claims)];
    expect(codeOf(await send(beyond))).toEqual(REFUSED);
  });

  test("gives a bounded number of attributes, and none that is longer than allowed or a selector", async () => {
    const { claims } = await signer({ enrollAttributeClaimsSelector: "groups" });
    const long = "l".repeat(MAX_ENROLLED_ATTRIBUTE_CHARACTERS + 1);
    const groups = [long, "#all", "@id", ...Array.from({ length: MAX_ENROLLED_ATTRIBUTES + 1 }, (_, n) => `g${n}`)];
    expect((await enroll({ ...claims, groups })).status).toBe(200);
    const { roleAttributes } = await named(claims.sub);
    expect(roleAttributes).toHaveLength(MAX_ENROLLED_ATTRIBUTES);
    expect(roleAttributes).toEqual(groups.slice(3, 3 + MAX_ENROLLED_ATTRIBUTES).sort());
  });

  test("gives the auth policy of the signer, which stays while the signer names it", async () => {
    const policy = await c.make("auth-policies", authPolicy("of enrolled"));
    const { claims } = await signer({ enrollAuthPolicyId: policy });
    expect((await enroll(claims)).status).toBe(200);
    expect((await named(claims.sub)).authPolicyId).toBe(policy);
    await c.admin("DELETE", `/identities/${(await named(claims.sub)).id}`);
    const { status, json } = await c.admin("DELETE", `/auth-policies/${policy}`);
    expect([status, json.error.cause.field]).toEqual([409, "enrollAuthPolicyId"]);
  });
});

describe("is refused, and nothing is stored:", () => {
  test.each<[string, (claims: Signer["claims"]) => Promise<{ status: number; json: { error?: { code: string } } }>]>([
    ["no token", () => send([])],
    ["a text that is no token", () => send(["nonsense"])],
    ["a token of another audience", (claims) => enroll({ ...claims, aud: "others" })],
    ["an expired token", (claims) => enroll({ ...claims, exp: 1 })],
    ["a token without an end", (claims) => enroll({ ...claims, exp: undefined })],
    ["a token of an unknown issuer", (claims) => enroll({ ...claims, iss: "https://strange.example" })],
    ["a token signed by another key", async (claims) => send([await idp.token(claims, { kid: "k1", by: "gone" })])],
    ["a token without the claim of the id", (claims) => enroll({ ...claims, sub: undefined })],
    ["a token whose claim of the id is no text", (claims) => enroll({ ...claims, sub: 5 })],
    ["a token whose claim of the id is blank", (claims) => enroll({ ...claims, sub: " " })],
    ["a name with a line break", (claims) => enroll({ ...claims, sub: `${claims.sub}\nadmin` })],
    ["a name that turns the direction of the text", (claims) => enroll({ ...claims, sub: `${claims.sub}\u202enimda` })],
    ["a name that is too long", (claims) => enroll({ ...claims, sub: randomBytes(4_000).toString("hex") })],
  ])("%s", async (_what, ask) => {
    const { claims } = await signer();
    expect(codeOf(await ask(claims))).toEqual(REFUSED);
    expect(await named(claims.sub)).toBeUndefined();
  });

  test("a named signer does not stand for another: GHSA-4h58", async () => {
    const { claims } = await signer();
    const other = await signer();
    expect(codeOf(await enroll(claims, {}, { "ziti-token-issuer-id": other.id }))).toEqual(REFUSED);
    expect(codeOf(await enroll(claims, {}, { "ziti-token-issuer-id": "nothing" }))).toEqual(REFUSED);
  });

  test("a signer that is disabled, or allows only the other kind", async () => {
    const disabled = await signer({ enabled: false });
    expect(codeOf(await enroll(disabled.claims))).toEqual(REFUSED);
    const toCert = await signer({ enrollToTokenEnabled: false });
    expect(codeOf(await enroll(toCert.claims))).toEqual(NOT_ALLOWED);
    const toToken = await signer({ enrollToCertEnabled: false });
    const { keyPem } = await createKeyPair();
    const body = { clientCsr: await createCsr({ keyPem, commonName: "x" }) };
    expect(codeOf(await enroll(toToken.claims, body))).toEqual(NOT_ALLOWED);
  });

  test("an auth policy by which the identity could not log in", async () => {
    const primary = authPolicy("x").primary;
    const without = await c.make("auth-policies", {
      ...authPolicy("no tokens"),
      primary: { ...primary, extJwt: { allowed: false, allowedSigners: [] } },
    });
    const { claims } = await signer({ enrollAuthPolicyId: without });
    expect(codeOf(await enroll(claims))).toEqual(NOT_ALLOWED);
    const some = await signer();
    const others = await c.make("auth-policies", {
      ...authPolicy("others' tokens"),
      primary: { ...primary, extJwt: { allowed: true, allowedSigners: [some.id] } },
    });
    const excluded = await signer({ enrollAuthPolicyId: others });
    expect(codeOf(await enroll(excluded.claims))).toEqual(NOT_ALLOWED);
  });

  test("an external id that an identity has already", async () => {
    const { claims } = await signer();
    await c.make("identities", { name: `taken-${count}`, type: "User", isAdmin: false, externalId: claims.sub });
    expect(codeOf(await enroll(claims))).toEqual([409, "ENROLLMENT_IDENTITY_ALREADY_ENROLLED"]);
  });

  test("a claim that is no external id, whatever the signer once allowed", async () => {
    const { id, claims } = await signer();
    await c.ctx.store.db.updateTable("ext_jwt_signer").set({ use_external_id: false }).where("id", "=", id).execute();
    expect(codeOf(await enroll(claims))).toEqual(NOT_ALLOWED);
    expect(await named(claims.sub)).toBeUndefined();
  });

  test("attributes of another shape, and a request that is none", async () => {
    const { claims } = await signer({ enrollAttributeClaimsSelector: "/groups" });
    expect(codeOf(await enroll({ ...claims, groups: ["a", 1] }))).toEqual(REFUSED);
    expect((await enroll(claims, { clientCsr: "no request" })).status).toBe(400);
    expect(await named(claims.sub)).toBeUndefined();
  });
});

describe("a signer", () => {
  test("shows what it allows, to clients only whether it does", async () => {
    const { id } = await signer({ enrollNameClaimsSelector: "/email" });
    expect((await c.admin("GET", `/external-jwt-signers/${id}`)).json.data).toMatchObject({
      ...{ enrollToCertEnabled: true, enrollToTokenEnabled: true, enrollNameClaimsSelector: "/email" },
      ...{ enrollAttributeClaimsSelector: "", enrollAuthPolicyId: "" },
    });
    const { json } = await c.call("GET", "/edge/client/v1/external-jwt-signers?limit=-1");
    const shown = json.data.find((each: { id: string }) => each.id === id);
    expect(Object.keys(shown).filter((key) => key.startsWith("enroll"))).toEqual([
      "enrollToCertEnabled",
      "enrollToTokenEnabled",
    ]);
  });

  test.each([
    ["enrollToTokenEnabled", { enrollToTokenEnabled: true, useExternalId: false }],
    // Its claims would become external ids, which are other people's at another signer.
    ["enrollToCertEnabled", { enrollToTokenEnabled: false, enrollToCertEnabled: true, useExternalId: false }],
    ["claimsProperty", { claimsProperty: "/a~2" }],
    ["enrollNameClaimsSelector", { enrollNameClaimsSelector: "/a~" }],
    ["enrollAttributeClaimsSelector", { enrollAttributeClaimsSelector: "/~x" }],
  ])("refuses what cannot work in %s", async (field, more) => {
    const { id } = await signer();
    const { status, json } = await c.admin("PATCH", `/external-jwt-signers/${id}`, more);
    expect([status, json.error.cause.field]).toEqual([400, field]);
  });

  test("names an auth policy that there is", async () => {
    const { id } = await signer();
    expect((await c.admin("PATCH", `/external-jwt-signers/${id}`, { enrollAuthPolicyId: "nothing" })).status).toBe(404);
    expect((await c.admin("PATCH", `/external-jwt-signers/${id}`, { enrollAuthPolicyId: "default" })).status).toBe(200);
  });

  test("finds the id of an identity by a JSON pointer", async () => {
    const { claims } = await signer({ claimsProperty: "/user/id" });
    expect((await enroll({ ...claims, user: { id: `deep-${count}` } })).status).toBe(200);
    expect((await named(claims.sub)).externalId).toBe(`deep-${count}`);
  });
});
