import { createHmac, createPrivateKey, generateKeyPairSync } from "node:crypto";
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { TestAuthority } from "@sallyport/wire/testing";
import { exportJWK, SignJWT } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { authPolicy } from "../api/testing/auth-policy.ts";
import { type Answer, startTestController, type TestController } from "../api/testing/test-controller.ts";
import { startTokenIssuer, type TokenIssuer } from "./testing/token-issuer.ts";

let c: TestController;
let issuer: TokenIssuer;
let signerId: string;
let identityId: string;

const signer = (name: string, more: object = {}) => ({
  name,
  issuer: `https://${name}.example`,
  audience: "sallyport",
  enabled: true,
  jwksEndpoint: issuer.jwksUrl,
  ...more,
});
const identity = (name: string, more: object = {}) => ({ name, type: "User", isAdmin: false, ...more });
const login = (tokens: string | readonly string[], headers: Record<string, string> = {}): Promise<Answer> =>
  c.call("POST", "/edge/client/v1/authenticate?method=ext-jwt", {
    headers: { ...headers, authorization: `Bearer ${[tokens].flat()[0]}` },
  });
const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

beforeAll(async () => {
  issuer = await startTokenIssuer();
  await issuer.addKey("k1");
  await issuer.addKey("k2");
  await issuer.addKey("rsa", "RS256");
  await issuer.addKey("ed", "EdDSA");
  c = await startTestController({
    auth: { ...CONTROLLER_DEFAULTS.auth, jwks: { allowedNetworks: ["127.0.0.0/8"], caPem: issuer.caPem } },
  });
  signerId = await c.make("external-jwt-signers", signer("main", { issuer: issuer.issuer }));
  identityId = await c.make("identities", identity("alice", { externalId: "alice@example.org" }));
});
afterAll(async () => {
  await c.close();
  await issuer.close();
});

describe("a token of an external signer", () => {
  test.each(["k1", "rsa", "ed"])("signed by key %s makes a full session", async (kid) => {
    const answer = await login(await issuer.token({ sub: identityId }, { kid }));
    expect(answer.status).toBe(200);
    expect(answer.json.data).toMatchObject({ identityId, authenticatorId: `extJwtId:${signerId}`, authQueries: [] });
    const { token } = answer.json.data;
    expect(answer.headers["zt-session"]).toBe(token);
    expect((await c.call("GET", "/edge/client/v1/current-identity", { token })).status).toBe(200);
    // A session without a certificate may have one made.
    expect((await c.call("GET", "/edge/client/v1/current-api-session", { token })).json.data).toMatchObject({
      isCertExtendable: false,
    });
  });

  const soon = () => Math.floor(Date.now() / 1_000);
  test.each<[string, () => Promise<string>]>([
    ["expired", () => issuer.token({ sub: identityId, exp: soon() - 1 })],
    ["without an end", () => issuer.token({ sub: identityId, exp: undefined })],
    ["not valid yet", () => issuer.token({ sub: identityId, nbf: soon() + 60 })],
    ["for another audience", () => issuer.token({ sub: identityId, aud: "other" })],
    ["for an audience that only begins like ours", () => issuer.token({ sub: identityId, aud: "sallyport2" })],
    ["without an audience", () => issuer.token({ sub: identityId, aud: undefined })],
    ["of an unregistered issuer", () => issuer.token({ sub: identityId, iss: "https://evil.example" })],
    ["of an issuer that differs in case", () => issuer.token({ sub: identityId, iss: "https://IDP.example" })],
    ["without an issuer", () => issuer.token({ sub: identityId, iss: undefined })],
    ["of an unknown key", () => issuer.token({ sub: identityId }, { kid: "nobody" })],
    ["signed by another key than it names", () => issuer.token({ sub: identityId }, { kid: "k1", by: "k2" })],
    ["of an algorithm that is not its key's", () => issuer.token({ sub: identityId }, { kid: "k1", by: "rsa" })],
    ["for an unknown identity", () => issuer.token({ sub: "nobody" })],
    ["without the claim", () => issuer.token({})],
    ["with a claim that is no text", () => issuer.token({ sub: 7 as unknown as string })],
    ["with a claim that is a list", () => issuer.token({ sub: [identityId] as unknown as string })],
    ["with a claim that no text column holds", () => issuer.token({ sub: "a\u0000b" })],
    ["that is cut off", async () => (await issuer.token({ sub: identityId })).slice(0, -4)],
    ["that is no token", async () => "x.y.z"],
    ["that is empty", async () => ""],
  ])("that is %s is refused, and all refusals look alike", async (_what, make) => {
    const answer = await login(await make());
    expect(answer.status).toBe(401);
    expect(answer.json.error).toEqual({
      code: "INVALID_AUTH",
      message: "The authentication request failed",
      requestId: expect.any(String),
    });
  });

  test("the audience may be one of several", async () => {
    expect((await login(await issuer.token({ sub: identityId, aud: ["other", "sallyport"] }))).status).toBe(200);
  });

  test("of the second header counts when the first is of an unknown issuer", async () => {
    const answer = await c.call("POST", "/edge/client/v1/authenticate?method=ext-jwt", {
      headers: { authorization: ["Bearer ", `Bearer ${await issuer.token({ sub: identityId })}`] as unknown as string },
    });
    expect(answer.status).toBe(200);
  });

  test("of a disabled identity is refused", async () => {
    const id = await c.make("identities", identity("disabled"));
    const token = await issuer.token({ sub: id });
    expect((await login(token)).status).toBe(200);
    await c.admin("POST", `/identities/${id}/disable`, { durationMinutes: 0 });
    expect((await login(token)).status).toBe(401);
    await c.admin("POST", `/identities/${id}/enable`);
    expect((await login(token)).status).toBe(200);
  });
});

describe("#3233: a token is good only when its check says so", () => {
  test("none as algorithm", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const claims = { iss: issuer.issuer, aud: "sallyport", sub: identityId, exp: now + 300 };
    for (const alg of ["none", "None", "NONE"]) {
      expect((await login(`${encoded({ alg, kid: "k1" })}.${encoded(claims)}.`)).status).toBe(401);
    }
  });

  test("HS256 with the public key as the secret, in every form that one could take it for", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const { publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const jwk = { ...(await exportJWK(publicKey)), kid: "confused" };
    issuer.answers.set("/confused", (_request, response) =>
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ keys: [jwk] })),
    );
    const jwksEndpoint = `https://127.0.0.1:${issuer.port}/confused`;
    await c.make("external-jwt-signers", signer("confused", { jwksEndpoint }));
    const signed = `${encoded({ alg: "HS256", kid: "confused" })}.${encoded({ iss: "https://confused.example", aud: "sallyport", sub: identityId, exp: now + 300 })}`;
    const secrets = [
      publicKey.export({ type: "spki", format: "pem" }),
      publicKey.export({ type: "spki", format: "der" }),
      publicKey.export({ type: "pkcs1", format: "pem" }),
      JSON.stringify(jwk),
    ];
    for (const secret of secrets) {
      const signature = createHmac("sha256", secret).update(signed).digest("base64url");
      expect((await login(`${signed}.${signature}`)).status).toBe(401);
    }
  });

  test("an RSA key of 1024 bits signs nothing", async () => {
    const weak = generateKeyPairSync("rsa", { modulusLength: 1024 });
    const jwk = { ...(await exportJWK(weak.publicKey)), kid: "weak" };
    issuer.answers.set("/weak", (_request, response) =>
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ keys: [jwk] })),
    );
    await c.make("external-jwt-signers", signer("weak", { jwksEndpoint: `https://127.0.0.1:${issuer.port}/weak` }));
    const token = await issuer.token({ iss: "https://weak.example", sub: identityId }, { kid: "weak" });
    expect((await login(token)).status).toBe(401);
  });
});

describe("a signer", () => {
  test("with a certificate checks with its key, named by kid or fingerprint", async () => {
    const authority = await TestAuthority.create();
    const { certPem, keyPem } = await authority.issue({ commonName: "token signing" });
    const id = await c.make("external-jwt-signers", signer("pinned", { certPem, jwksEndpoint: null, kid: "pinned-1" }));
    const { fingerprint } = (await c.admin("GET", `/external-jwt-signers/${id}`)).json.data;
    expect(fingerprint).toMatch(/^[0-9a-f]{40}$/);
    const token = async (kid: string) =>
      new SignJWT({ iss: "https://pinned.example", aud: "sallyport", sub: identityId })
        .setExpirationTime("5m")
        .setProtectedHeader({ alg: "ES256", kid })
        .sign(createPrivateKey(keyPem));
    expect((await login(await token("pinned-1"))).status).toBe(200);
    expect((await login(await token(fingerprint))).status).toBe(200);
    expect((await login(await token("other"))).status).toBe(401);
  });

  test("that is disabled takes no token, and the sessions of its tokens end", async () => {
    const id = await c.make("external-jwt-signers", signer("switched"));
    const token = await issuer.token({ iss: "https://switched.example", sub: identityId });
    const { token: session } = (await login(token)).json.data;
    const whoAmI = () => c.call("GET", "/edge/client/v1/current-identity", { token: session });
    expect((await whoAmI()).status).toBe(200);
    expect((await c.admin("PATCH", `/external-jwt-signers/${id}`, { enabled: false })).status).toBe(200);
    expect((await whoAmI()).status).toBe(401);
    expect((await login(token)).status).toBe(401);
    await c.admin("PATCH", `/external-jwt-signers/${id}`, { enabled: true });
    expect((await login(token)).status).toBe(200);
    expect((await c.admin("DELETE", `/external-jwt-signers/${id}`)).status).toBe(200);
    expect((await login(token)).status).toBe(401);
  });

  test("names the claim, and whether it is the external id", async () => {
    await c.make("external-jwt-signers", signer("mail", { claimsProperty: "email", useExternalId: true }));
    const iss = "https://mail.example";
    const by = async (claims: Record<string, unknown>) => login(await issuer.token({ iss, ...claims }));
    expect((await by({ email: "alice@example.org", sub: "other" })).json.data.identityId).toBe(identityId);
    expect((await by({ email: "Alice@example.org" })).status).toBe(401);
    expect((await by({ email: identityId })).status).toBe(401);
    expect((await by({ sub: "alice@example.org" })).status).toBe(401);
    await c.make("external-jwt-signers", signer("proto", { claimsProperty: "__proto__" }));
    expect((await login(await issuer.token({ iss: "https://proto.example", sub: identityId }))).status).toBe(401);
  });

  test("whose key set cannot be fetched, here for its certificate, takes no token", async () => {
    const outsider = await startTokenIssuer("https://outsider.example");
    await outsider.addKey("k1");
    await c.make("external-jwt-signers", signer("outsider", { jwksEndpoint: outsider.jwksUrl }));
    expect((await login(await outsider.token({ sub: identityId }))).status).toBe(401);
    expect(outsider.requests).toEqual([]);
    await outsider.close();
  });

  test.each(["http://169.254.169.254/latest/meta-data", "https://10.0.0.1/jwks", "http://[fe80::1]/"])(
    "GHSA-whjr-3j94-gw3c: with the key set at %s takes no token",
    async (jwksEndpoint) => {
      const name = `ssrf-${jwksEndpoint.length}`;
      const id = await c.make("external-jwt-signers", signer(name, { jwksEndpoint }));
      const answer = await login(await issuer.token({ iss: `https://${name}.example`, sub: identityId }));
      expect(answer.json.error.code).toBe("INVALID_AUTH");
      await c.admin("DELETE", `/external-jwt-signers/${id}`);
    },
  );
});

describe("GHSA-4h58-w989-xgg4: a hint only chooses the issuer, every check of the claims stays", () => {
  test.each(["ziti-token-issuer-id", "ziti-token-issuer"])("%s", async (header) => {
    const other = await c.make("external-jwt-signers", signer(`hinted-${header}`, { audience: "another" }));
    const stolen = await issuer.token({ iss: `https://hinted-${header}.example`, sub: identityId });
    for (const id of [signerId, other]) expect((await login(stolen, { [header]: id })).status).toBe(401);
    const right = await issuer.token({ sub: identityId });
    expect((await login(right, { [header]: other })).json.data.authenticatorId).toBe(`extJwtId:${signerId}`);
  });
});

describe("the auth policy decides about tokens", () => {
  const policy = (name: string, extJwt: object, secondary: object = {}) => authPolicy(name, { extJwt, secondary });

  test("allowed, and allowedSigners of which none means any", async () => {
    const other = await c.make("external-jwt-signers", signer("allowed-other"));
    const cases: [object, number][] = [
      [{ allowed: false }, 401],
      [{ allowedSigners: [] }, 200],
      [{ allowedSigners: [other] }, 401],
      [{ allowedSigners: [other, signerId] }, 200],
    ];
    for (const [index, [extJwt, status]] of cases.entries()) {
      const authPolicyId = await c.make("auth-policies", policy(`tokens-${index}`, extJwt));
      const id = await c.make("identities", identity(`tokens-${index}`, { authPolicyId }));
      expect((await login(await issuer.token({ sub: id }))).status).toBe(status);
    }
  });

  test("a required signer is asked for in authQueries, and every request has to prove it again", async () => {
    const second = await c.make(
      "external-jwt-signers",
      signer("second", {
        externalAuthUrl: "https://idp.example/login",
        clientId: "client",
        scopes: ["openid"],
        audience: "second",
      }),
    );
    const authPolicyId = await c.make("auth-policies", policy("second", {}, { requireExtJwtSigner: second }));
    const id = await c.make("identities", identity("second", { authPolicyId, isAdmin: true }));
    await c.make("authenticators", { identityId: id, method: "updb", username: "second", password: "second" });
    const answer = await c.call("POST", "/edge/client/v1/authenticate?method=password", {
      body: { username: "second", password: "second" },
    });
    const query = {
      typeId: "EXT-JWT",
      provider: "url",
      httpUrl: "https://idp.example/login",
      id: second,
      clientId: "client",
      scopes: ["openid"],
    };
    expect(answer.json.data.authQueries).toEqual([query]);
    const { token } = answer.json.data;
    const get = (path: string, bearer?: string) =>
      c.call("GET", path, { token, headers: bearer === undefined ? {} : { authorization: `Bearer ${bearer}` } });
    const mine = { iss: "https://second.example", aud: "second", sub: id };
    const good = await issuer.token(mine);
    const bad = [
      undefined,
      await issuer.token({ ...mine, sub: identityId }),
      await issuer.token({ ...mine, aud: "sallyport" }),
      await issuer.token({ ...mine, exp: 1 }),
      await issuer.token({ sub: id }),
    ];
    for (const bearer of bad) {
      // PARTIAL: the session itself, and nothing else; a partial administrator is none.
      expect((await get("/edge/client/v1/current-api-session", bearer)).json.data.authQueries).toEqual([query]);
      expect((await get("/edge/client/v1/current-identity", bearer)).status).toBe(401);
      expect((await get("/edge/client/v1/services", bearer)).status).toBe(401);
      expect((await get("/edge/management/v1/identities", bearer)).status).toBe(401);
    }
    expect((await get("/edge/client/v1/current-api-session", good)).json.data.authQueries).toEqual([]);
    expect((await get("/edge/client/v1/services", good)).status).toBe(200);
    expect((await get("/edge/management/v1/identities", good)).status).toBe(200);
    expect((await get("/edge/client/v1/services")).status).toBe(401);

    await c.admin("PATCH", `/external-jwt-signers/${second}`, { enabled: false });
    expect((await get("/edge/client/v1/services", good)).status).toBe(401);
    await c.admin("PATCH", `/auth-policies/${authPolicyId}`, { secondary: { requireExtJwtSigner: "" } });
    expect((await get("/edge/client/v1/services")).status).toBe(200);
  });

  test("requireTotp leaves the session partial until the code is given, whether or not there is an enrollment", async () => {
    const authPolicyId = await c.make("auth-policies", policy("totp", {}, { requireTotp: true }));
    const id = await c.make("identities", identity("totp", { authPolicyId }));
    const before = c.announced.length;
    const { data } = (await login(await issuer.token({ sub: id }))).json;
    expect(data).toMatchObject({
      isMfaRequired: true,
      isMfaComplete: false,
      authQueries: [
        {
          typeId: "MFA",
          provider: "ziti",
          format: "alphaNumeric",
          minLength: 4,
          maxLength: 6,
          httpMethod: "POST",
          httpUrl: "./authenticate/mfa",
        },
      ],
    });
    expect(c.announced).toHaveLength(before);
    const { token } = data;
    expect(await c.fabricModel.apiSessionsAfter("", 1_000)).not.toContainEqual(expect.objectContaining({ token }));
    expect((await c.call("GET", "/edge/client/v1/services", { token })).status).toBe(401);
    const session = await c.model.apiSessions.findByToken(c.ctx.store.db, token);
    await c.model.apiSessions.completeMfa(session!.id);
    expect((await c.call("GET", "/edge/client/v1/services", { token })).status).toBe(200);
    expect(await c.fabricModel.apiSessionsAfter("", 1_000)).toContainEqual(expect.objectContaining({ token }));
  });
});

test("sessions of an external id end when the identity gets another one, or its signer takes it from elsewhere", async () => {
  const own = { issuer: "https://renamed.example", useExternalId: true };
  const signerId = await c.make("external-jwt-signers", signer("renamed", own));
  const id = await c.make("identities", identity("renamed", { externalId: "before" }));
  const enter = async (sub: string) => {
    const answer = await login(await issuer.token({ sub, iss: own.issuer }));
    expect(answer.status).toBe(200);
    const { token } = answer.json.data;
    return async () => (await c.call("GET", "/edge/client/v1/current-identity", { token })).status;
  };
  const first = await enter("before");
  await c.admin("PATCH", `/identities/${id}`, { externalId: "before", tags: { a: "b" } });
  await c.admin("PATCH", `/external-jwt-signers/${signerId}`, { tags: { a: "b" } });
  expect(await first()).toBe(200);
  await c.admin("PATCH", `/identities/${id}`, { externalId: "after" });
  expect(await first()).toBe(401);
  const second = await enter("after");
  await c.admin("PATCH", `/external-jwt-signers/${signerId}`, { claimsProperty: "email" });
  expect(await second()).toBe(401);
});
