import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { authPolicy } from "../api/testing/auth-policy.ts";
import { type Answer, startTestController, type TestController } from "../api/testing/test-controller.ts";
import { startTokenIssuer, type TokenIssuer } from "../auth/testing/token-issuer.ts";
import { totpCode } from "../model/identity/one-time-codes.ts";
import {
  certificateIdentity,
  certificateRequest,
  claimsOf,
  idIn,
  locationOf,
  OidcTestClient,
  passwordIdentity,
  REDIRECT_URI,
  redirected,
} from "./testing/oidc-client.ts";

let t: TestController;
let idp: TokenIssuer;
let signerId: string;
let client: OidcTestClient;
let ann: string;
beforeAll(async () => {
  idp = await startTokenIssuer();
  await idp.addKey("k1");
  t = await startTestController({
    auth: { ...CONTROLLER_DEFAULTS.auth, jwks: { allowedNetworks: ["127.0.0.0/8"], caPem: idp.caPem } },
  });
  client = new OidcTestClient(t);
  ann = await passwordIdentity(t, "anna");
  signerId = await t.make("external-jwt-signers", {
    ...{ name: "idp", issuer: idp.issuer, audience: "sallyport", enabled: true, jwksEndpoint: idp.jwksUrl },
    externalAuthUrl: "https://idp.example/login",
    useExternalId: false,
  });
});
afterAll(async () => {
  await t.close();
  await idp.close();
});

const json = (path: string, body: object, headers: Record<string, string | string[]> = {}) =>
  client.call("POST", path, { body, headers });
const password = (id: string, more: object = {}) =>
  json("/oidc/login/password", { id, username: "anna", password: "password", ...more });
const withTotp = (name: string) => authPolicy(name, { secondary: { requireTotp: true } });
const secretIn = (url: string) => new URL(url).searchParams.get("secret") ?? "";
const BROWSER = { accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8" };
/** Hidden fields of a page. */
const hidden = ({ text }: Answer, name: string) =>
  new RegExp(`name="${name}" value="([^"]*)"`).exec(text)?.[1] ??
  new RegExp(`value="([^"]*)" name="${name}"`).exec(text)?.[1];

describe("a login with a password", () => {
  test("goes from the request to tokens that the APIs take", async () => {
    const begun = await client.authorize();
    expect(begun.status).toBe(302);
    const id = idIn(begun) ?? "";
    expect(locationOf(begun)).toBe(`/oidc/login/username?authRequestID=${id}`);
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    const page = await client.get(locationOf(begun));
    expect(page.status).toBe(200);
    expect(page.headers["auth-request-id"]).toBe(id);
    const finished = await password(id, {
      configTypes: ["all"],
      sdkInfo: { type: "t" },
      envInfo: { os: "linux", arch: null },
    });
    const callback = locationOf(finished);
    expect(callback.startsWith(`https://localhost:${t.port}/oidc/authorize/callback?id=`)).toBe(true);
    expect(callback).not.toContain(id);
    const code = await client.codeOf(finished);
    const answer = await client.exchange(code);
    expect(answer.status).toBe(200);
    expect(answer.headers["cache-control"]).toBe("no-store");
    expect(answer.json).toEqual({
      access_token: expect.any(String),
      token_type: "Bearer",
      refresh_token: expect.any(String),
      expires_in: 1_800,
      id_token: expect.any(String),
      scope: "openid offline_access",
    });
    const access = claimsOf(answer.json.access_token);
    expect(access).toMatchObject({
      ...{ iss: client.issuer, sub: ann, aud: ["openziti"], client_id: "openziti", z_t: "a", z_cfs: null },
      ...{ amr: ["password"], scopes: ["openid", "offline_access"], z_ct: ["all"] },
      ...{ z_sdk: { type: "t" }, z_env: { os: "linux" } },
    });
    const refresh = claimsOf(answer.json.refresh_token);
    expect(refresh).toMatchObject({ z_t: "r", z_asid: access.z_asid });
    expect(refresh.jti).not.toBe(access.jti);
    expect(claimsOf(answer.json.id_token)).toMatchObject({
      ...{ sub: ann, name: "anna", nonce: "a-nonce", azp: "openziti", z_asid: access.z_asid },
      ...{ at_hash: expect.any(String), c_hash: expect.any(String) },
    });
    const who = await client.api(answer.json.access_token);
    expect([who.status, who.json.data.id]).toEqual([200, ann]);
  });

  test("takes a form, an id in the query, and both names of the endpoint", async () => {
    const fields = { username: "anna", password: "password" };
    const [one, two, three] = [await client.begin(), await client.begin(), await client.begin()];
    expect((await client.form("/oidc/login/username", { id: one, ...fields })).status).toBe(302);
    expect((await client.form(`/oidc/login/password?authRequestID=${two}`, fields)).status).toBe(302);
    expect((await client.form(`/oidc/login/password?id=${three}`, fields)).status).toBe(302);
  });

  test("that is wrong leaves the request usable; one that is finished is over", async () => {
    const id = await client.begin();
    const wrong = await password(id, { password: "wrong" });
    expect(wrong.status).toBe(401);
    expect(wrong.json).toMatchObject({ code: "INVALID_AUTH" });
    expect((await password(id)).status).toBe(302);
    expect((await password(id)).json).toMatchObject({ code: "UNAUTHORIZED" });
    expect((await client.get(`/oidc/login/auth-queries?id=${id}`)).status).toBe(401);
  });

  test("makes no session that counts before the code is exchanged, and its code works once", async () => {
    const code = await client.codeOf(await password(await client.begin()));
    const all = await Promise.all(Array.from({ length: 5 }, () => client.exchange(code)));
    // None, if it came again before the first one was through.
    const made = all.filter(({ status }) => status === 200);
    expect(made.length).toBeLessThanOrEqual(1);
    expect(new Set(all.flatMap(({ json }) => (json.access_token ? [] : [json.error])))).toEqual(
      new Set(["invalid_grant"]),
    );
    // A code that came twice was stolen: what was made with it has ended.
    for (const { json } of made) expect((await client.api(json.access_token)).status).toBe(401);
  });

  test("without the scope offline_access has no refresh token", async () => {
    const answer = await client.logIn(
      "password",
      { username: "anna", password: "password" },
      { scope: "openid email" },
    );
    expect(answer.json).toMatchObject({ scope: "openid" });
    expect(answer.json.refresh_token).toBeUndefined();
  });
});

test("the id of the request alone leads to no code", async () => {
  const id = await client.begin();
  expect(redirected(await client.get(`/oidc/authorize/callback?id=${id}`))).toMatchObject({
    error: "interaction_required",
    state: "a state",
  });
  const finished = await password(id);
  expect((await client.get(`/oidc/authorize/callback?id=${id}`)).status).toBe(400);
  const target = locationOf(
    await client.get(new URL(locationOf(finished)).pathname + new URL(locationOf(finished)).search),
  );
  // The code comes first: clients take all that follows it.
  expect(target).toMatch(/^http:\/\/localhost:8080\/auth\/callback\?code=[\w-]{43}&state=a%20state$/);
});

describe("a login with a certificate", () => {
  test("is what a client with one is sent to, and binds its tokens", async () => {
    const { id, cert, key } = await certificateIdentity(t, "carol");
    const own = new OidcTestClient(t, { cert, key, clientId: "native" });
    const begun = await own.authorize();
    expect(locationOf(begun)).toMatch(/^\/oidc\/login\/cert\?authRequestID=/);
    expect(locationOf(await own.authorize({ method: "password" }))).toMatch(/^\/oidc\/login\/username\?/);
    expect(locationOf(await client.authorize({ method: "ext-jwt" }))).toMatch(/^\/oidc\/login\/ext-jwt\?/);
    const text = await own.get(locationOf(begun));
    expect([text.status, text.text, text.headers["auth-request-id"]]).toEqual([
      200,
      "please POST to this URL",
      idIn(begun),
    ]);
    // As clients on the JVM do it: a POST to where they were sent, with a form type and nothing.
    const answer = await own.exchange(await own.codeOf(await own.form(locationOf(begun), "")));
    const claims = claimsOf(answer.json.access_token);
    expect(claims).toMatchObject({ sub: id, aud: ["native"], amr: ["cert"], z_cfs: [claims.z_acf] });
    expect((await own.api(answer.json.access_token)).status).toBe(200);
    expect((await client.api(answer.json.access_token)).status).toBe(401);
  });

  test("is refused without one, and with one that is not known", async () => {
    const answer = await json("/oidc/login/cert", { id: await client.begin() });
    expect([answer.status, answer.json.code]).toEqual([401, "INVALID_AUTH"]);
  });
});

describe("a login with a token of an identity provider", () => {
  test("is complete with it, and says what is missing without", async () => {
    const id = await client.begin();
    const missing = await json("/oidc/login/ext-jwt", { id });
    expect([missing.status, missing.json.code]).toEqual([401, "UNAUTHORIZED"]);
    expect(missing.headers["www-authenticate"]).toBe(
      `Bearer realm="openziti-primary-ext-jwt" error="missing" error_description="no token was provided" id="${signerId}" issuer="${idp.issuer}"`,
    );
    const wrong = await json("/oidc/login/ext-jwt", { id }, { authorization: "Bearer a.b.c" });
    expect(wrong.headers["www-authenticate"]).toContain('error="invalid"');
    const ended = await idp.token({ sub: ann, exp: Math.floor(Date.now() / 1_000) - 1 });
    const late = await json("/oidc/login/ext-jwt", { id }, { authorization: `Bearer ${ended}` });
    expect(late.headers["www-authenticate"]).toContain('error="expired"');
    const authorization = `Bearer ${await idp.token({ sub: ann })}`;
    const finished = await json("/oidc/login/ext-jwt", { id }, { authorization });
    const { access_token } = (await client.exchange(await client.codeOf(finished))).json;
    expect(claimsOf(access_token)).toMatchObject({
      amr: ["ext-jwt", `ejs:${signerId}`],
      z_authid: `extJwtId:${signerId}`,
    });
  });

  test("as a second factor is asked for, given with another request, and needed by each request of the API", async () => {
    const authPolicyId = await t.make(
      "auth-policies",
      authPolicy("second token", { secondary: { requireExtJwtSigner: signerId } }),
    );
    const identityId = await passwordIdentity(t, "dora", { authPolicyId });
    const id = await client.begin();
    const open = await json("/oidc/login/password", { id, username: "dora", password: "password" });
    expect(open.status).toBe(200);
    expect(open.headers["totp-required"]).toBeUndefined();
    expect(open.headers["www-authenticate"]).toContain('realm="openziti-secondary-ext-jwt"');
    expect(open.json).toMatchObject({
      authQueries: [{ typeId: "EXT-JWT", provider: "url", id: signerId, httpUrl: "https://idp.example/login" }],
    });
    const bearer = await idp.token({ sub: identityId });
    const finished = await client.form("/oidc/login/ext-jwt", { id }, { authorization: `Bearer ${bearer}` });
    const { access_token } = (await client.exchange(await client.codeOf(finished))).json;
    expect((await client.api(access_token)).status).toBe(401);
    expect((await client.api(access_token, "current-identity", [bearer])).status).toBe(200);
  });
});

describe("a login with a one-time code", () => {
  test("enrolls it on the way, and asks for it from then on", async () => {
    const authPolicyId = await t.make("auth-policies", withTotp("enrolls"));
    await passwordIdentity(t, "emil", { authPolicyId });
    const credentials = { username: "emil", password: "password" };
    const id = await client.begin();
    const open = await json("/oidc/login/password", { id, ...credentials });
    expect([open.status, open.headers["totp-required"]]).toEqual([200, "true"]);
    const query = {
      ...{ typeId: "TOTP", provider: "ziti", format: "numeric", httpMethod: "POST", httpUrl: "./oidc/login/totp" },
      ...{ minLength: 6, maxLength: 8, scopes: null },
    };
    expect(open.json).toEqual({ authQueries: [query] });
    expect((await client.get(`/oidc/login/auth-queries?id=${id}`)).json).toEqual({ authQueries: [query] });
    expect((await json("/oidc/login/totp/enroll/verify", { id, code: "123456" })).json.code).toBe(
      "MFA_ENROLLMENT_NOT_STARTED",
    );
    expect((await client.call("DELETE", `/oidc/login/totp/enroll?id=${id}`)).json).toEqual({});
    const started = await json("/oidc/login/totp/enroll", { id });
    expect(started.status).toBe(201);
    expect(started.json).toMatchObject({
      isVerified: false,
      recoveryCodes: expect.any(Array),
      provisioningUrl: expect.stringMatching(/^otpauth:/),
    });
    expect((await json("/oidc/login/totp/enroll", { id })).json.code).toBe("MFA_EXISTS");
    const secret = secretIn(started.json.provisioningUrl);
    const wrong = await json("/oidc/login/totp/enroll/verify", { id, code: "000000" });
    expect([wrong.status, wrong.json.code]).toEqual([400, "MFA_INVALID_TOKEN"]);
    const verified = await json("/oidc/login/totp/enroll/verify", { id, code: totpCode(secret, t.ctx.now()) });
    const { access_token } = (await client.exchange(await client.codeOf(verified))).json;
    expect(claimsOf(access_token).amr).toEqual(["password", "totp"]);
    expect((await client.api(access_token)).status).toBe(200);

    const next = await client.begin();
    const asked = await json("/oidc/login/password", { id: next, ...credentials });
    expect(asked.json.authQueries).toEqual([{ ...query, isTotpEnrolled: true }]);
    expect(redirected(await client.get(`/oidc/authorize/callback?id=${next}`)).error).toBe("interaction_required");
    const [recovery] = started.json.recoveryCodes;
    const passed = await client.form("/oidc/login/totp", { id: next, code: recovery });
    expect((await client.exchange(await client.codeOf(passed))).status).toBe(200);
  });

  test("is refused before the first factor", async () => {
    const id = await client.begin();
    expect((await json("/oidc/login/totp", { id, code: "123456" })).status).toBe(401);
    expect((await client.get(`/oidc/login/auth-queries?id=${id}`)).json).toEqual({ authQueries: null });
  });
});

describe("a login on the page", () => {
  test("goes on only with the secret of its page", async () => {
    const authPolicyId = await t.make("auth-policies", withTotp("page"));
    await passwordIdentity(t, "fred", { authPolicyId });
    const id = await client.begin();
    const page = await client.get(`/oidc/login/username?authRequestID=${id}`, BROWSER);
    const pageSecret = hidden(page, "pageSecret");
    expect(hidden(page, "id")).toBe(id);
    const wrong = await client.form(
      "/oidc/login/password",
      { id, pageSecret, username: "fred", password: "no" },
      BROWSER,
    );
    expect(wrong.status).toBe(401);
    expect(wrong.headers["content-type"]).toMatch(/^text\/html/);
    const enrollment = await client.form(
      "/oidc/login/password",
      { id, pageSecret, username: "fred", password: "password" },
      BROWSER,
    );
    expect(enrollment.status).toBe(200);
    expect(hidden(enrollment, "pageSecret")).toBe(pageSecret);
    const secret =
      /secret=([A-Z2-7]+)/.exec(enrollment.text)?.[1] ??
      /\b[A-Z2-7]{32}\b/.exec(enrollment.text.replaceAll(/(?<=[A-Z2-7]{4}) (?=[A-Z2-7]{4})/g, ""))?.[0] ??
      "";
    const code = () => totpCode(secret, t.ctx.now());
    // Who sent the link knows the id, and gets no further.
    for (const other of [undefined, "x".repeat(43)]) {
      const answer = await client.form("/oidc/login/totp/enroll/verify", { id, code: code(), pageSecret: other });
      expect(answer.status).toBe(401);
    }
    expect((await client.get(`/oidc/authorize/callback?id=${id}`)).status).toBe(400);
    const enrollmentId = hidden(enrollment, "enrollmentId");
    const verify = (given: string) =>
      client.form("/oidc/login/totp/enroll/verify", { id, pageSecret, enrollmentId, code: given }, BROWSER);
    const again = await verify("000000");
    expect([again.status, hidden(again, "pageSecret")]).toEqual([400, pageSecret]);
    expect([hidden(again, "enrollmentId"), again.text.includes(secret.slice(0, 4))]).toEqual([enrollmentId, true]);
    const finished = await verify(code());
    expect((await client.exchange(await client.codeOf(finished))).status).toBe(200);
  });

  test("that ends at a program's own scheme shows the link", async () => {
    const redirect_uri = "openziti://auth/callback";
    const id = await client.begin({ redirect_uri });
    const finished = await password(id);
    const { pathname, search } = new URL(locationOf(finished));
    const page = await client.get(pathname + search, BROWSER);
    expect(page.text).toContain(`${redirect_uri}?code=`);
    expect(locationOf(await client.get(pathname + search)).startsWith(`${redirect_uri}?code=`)).toBe(true);
  });
});

describe("a certificate for the session", () => {
  test("comes with the tokens, which need it from then on", async () => {
    const { csr, key } = await certificateRequest("any");
    const answer = await client.logIn("password", { username: "anna", password: "password", csrPem: csr });
    const { access_token, refresh_token, session_cert: cert } = answer.json;
    expect(cert).toMatch(/^-----BEGIN CERTIFICATE-----/);
    const own = new OidcTestClient(t, { cert, key });
    expect(claimsOf(access_token).z_cfs).toHaveLength(1);
    expect((await client.api(access_token)).status).toBe(401);
    expect((await own.api(access_token)).status).toBe(200);
    expect((await client.refresh(refresh_token)).json.error).toBe("access_denied");
    expect((await own.refresh(refresh_token)).status).toBe(200);
  });

  test("counts no longer once it is taken away, and the tokens still need one", async () => {
    const { csr, key } = await certificateRequest("any");
    const login = { username: "anna", password: "password", csrPem: csr };
    const { access_token, refresh_token, session_cert: cert } = (await client.logIn("password", login)).json;
    const own = new OidcTestClient(t, { cert, key });
    const authorization = `Bearer ${access_token}`;
    const path = "/edge/client/v1/current-api-session/certificates";
    const made = await own.call("POST", path, { headers: { authorization }, body: { csr } });
    const second = new OidcTestClient(t, { cert: made.json.data.certificate, key });
    expect((await second.api(access_token)).status).toBe(200);
    const first = (await own.get(path, { authorization })).json.data.find(
      (each: { id: string }) => each.id !== made.json.data.id,
    );
    expect((await own.call("DELETE", `${path}/${first.id}`, { headers: { authorization } })).status).toBe(200);
    for (const as of [own, client]) expect((await as.api(access_token)).status).toBe(401);
    expect((await second.api(access_token)).status).toBe(200);
    // No token is made that a router would take over every connection.
    expect((await second.refresh(refresh_token)).json.error).toBe("access_denied");
    expect((await second.call("DELETE", `${path}/${made.json.data.id}`, { headers: { authorization } })).status).toBe(
      200,
    );
    for (const as of [own, second, client]) expect((await as.api(access_token)).status).toBe(401);
  });

  test("is refused at once for a request that is none", async () => {
    const answer = await password(await client.begin(), { csrPem: "no CSR" });
    expect([answer.status, answer.json.code]).toEqual([400, "invalid_request"]);
    expect(answer.json.message).toMatch(/^invalid CSR: /);
  });
});

test("redirects that the client asks for lead to its own address only", async () => {
  expect(redirected(await client.authorize({ scope: "email" }))).toMatchObject({
    error: "invalid_scope",
    state: "a state",
  });
  expect(
    locationOf(await client.authorize({ prompt: "none" })).startsWith(`${REDIRECT_URI}?error=login_required&`),
  ).toBe(true);
});
