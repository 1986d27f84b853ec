/** What strangers, other users and pages of other sites try at the provider. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { authPolicy } from "../api/testing/auth-policy.ts";
import { extJwtSigner } from "../api/testing/ext-jwt-signer.ts";
import { type Answer, startTestController, type TestController } from "../api/testing/test-controller.ts";
import { AttemptLimits } from "../auth/limits/attempt-limits.ts";
import { MAX_PARAMETERS } from "../http/endpoints.ts";
import { totpCode } from "../model/identity/one-time-codes.ts";
import { MAX_CONFIG_TYPE_CHARACTERS } from "./authorize.ts";
import { SINGLE_REVOCATIONS } from "./session-end.ts";
import { certificateIdentity, certificateRequest } from "./testing/oidc-client.ts";
import { callbackIn, claimsOf, logIn, makeUser, OidcFlow, postForm, TEST_PASSWORD } from "./testing/oidc-flow.ts";

const CONSOLE = "https://console.example";
const EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token";

let c: TestController;
let needsCode = "";
beforeAll(async () => {
  c = await startTestController({ allowedOrigins: [CONSOLE] });
  needsCode = await c.make("auth-policies", authPolicy("needs a code", { secondary: { requireTotp: true } }));
});
afterAll(() => c.close());
beforeEach(() => {
  c.clock.offsetMs = 0;
});

const exchangeFields = (token: string) => [
  ["grant_type", EXCHANGE] as const,
  ["client_id", "openziti"] as const,
  ["subject_token", token] as const,
  ["subject_token_type", ACCESS_TOKEN] as const,
];
const ask = (token: string) =>
  c.call("GET", "/edge/client/v1/current-identity", { headers: { authorization: `Bearer ${token}` } });

describe("a page of another site", () => {
  it("proves no factor of a login that its author began, with the certificate of a visitor's browser", async () => {
    const victim = await certificateIdentity(c, "visitor", { authPolicyId: needsCode });
    const attacker = new OidcFlow(c);
    const id = await attacker.begin();
    // The author knows all that the form holds, and would go on by enrolling a code of its own; the certificate request would bind the tokens to its key.
    const { csr: csrPem } = await certificateRequest("author");
    const fields = Object.entries({ id, csrPem, pageSecret: "of the author" });
    for (const [site, accept] of [
      ["cross-site", "text/html"],
      ["cross-site", "application/json"],
      ["same-site", "text/html"],
    ] as const) {
      const headers = { origin: "https://evil.example", "sec-fetch-site": site, accept };
      const answer = await postForm(c, "/oidc/login/cert", fields, { ...victim, headers });
      expect([answer.status, site, accept]).toEqual([403, site, accept]);
    }
    const next = await postForm(c, "/oidc/login/totp/enroll", Object.entries({ id, pageSecret: "of the author" }));
    expect(next.status).toBe(401);
    // The page of the login itself, and a program.
    for (const headers of [{ "sec-fetch-site": "same-origin", origin: "null" }, {}]) {
      const own = Object.entries({ id: await attacker.begin() });
      expect((await postForm(c, "/oidc/login/cert", own, { ...victim, headers })).status).toBe(200);
    }
  });

  it("logs in if an administrator has allowed its origin", async () => {
    const { username } = await makeUser(c);
    const flow = new OidcFlow(c);
    const headers = { origin: CONSOLE, "sec-fetch-site": "cross-site" };
    const fields = flow.passwordFields(await flow.begin(), username);
    expect((await postForm(c, "/oidc/login/password", fields, { headers })).status).toBe(302);
  });
});

it("who knows the password alone cannot plant the secret of the one-time codes that its owner then enrolls", async () => {
  const { username } = await makeUser(c, { authPolicyId: needsCode });
  const attacker = new OidcFlow(c);
  const id = await attacker.begin();
  await postForm(c, "/oidc/login/password", attacker.passwordFields(id, username));
  const planted = await postForm(c, "/oidc/login/totp/enroll", [["id", id]]);
  const secret = new URL(planted.json.provisioningUrl).searchParams.get("secret") ?? "";
  expect(secret).not.toBe("");
  const owner = new OidcFlow(c);
  const fields = owner.passwordFields(await owner.begin(), username);
  const page = await postForm(c, "/oidc/login/password", fields, { headers: { accept: "text/html" } });
  expect(page.text).toContain("Set up one-time codes");
  expect(page.text).not.toContain(secret);
  expect(planted.json.recoveryCodes.filter((code: string) => page.text.includes(code))).toEqual([]);
});

it("who replaces an enrollment while its page is open is not shown as the owner's, nor verified by it", async () => {
  const { username } = await makeUser(c, { authPolicyId: needsCode });
  const html = { headers: { accept: "text/html" } };
  const attacker = new OidcFlow(c);
  const theirs = await attacker.begin();
  await postForm(c, "/oidc/login/password", attacker.passwordFields(theirs, username));
  const plant = async () => {
    await c.call("DELETE", `/oidc/login/totp/enroll?id=${theirs}`);
    return (await postForm(c, "/oidc/login/totp/enroll", [["id", theirs]])).json;
  };
  const owner = new OidcFlow(c);
  const id = await owner.begin();
  let page = await postForm(c, "/oidc/login/password", owner.passwordFields(id, username), html);
  const hidden = (name: string) => new RegExp(`name="${name}" value="([^"]*)"`).exec(page.text)?.[1] ?? "";
  const fields = (code: string) =>
    Object.entries({ id, code, pageSecret: hidden("pageSecret"), enrollmentId: hidden("enrollmentId") });
  for (const codeOf of [() => "000000", (secret: string) => totpCode(secret, c.ctx.now())]) {
    const planted = await plant();
    const secret = new URL(planted.provisioningUrl).searchParams.get("secret") ?? "";
    page = await postForm(c, "/oidc/login/totp/enroll/verify", fields(codeOf(secret)), html);
    expect(page.text).toContain("Set up one-time codes");
    expect(planted.recoveryCodes.filter((code: string) => page.text.includes(code))).toEqual([]);
    expect(page.text).not.toContain(secret);
  }
  const own = /secret=([A-Z2-7]+)/.exec(page.text)?.[1] ?? "";
  const done = await postForm(c, "/oidc/login/totp/enroll/verify", fields(totpCode(own, c.ctx.now())), html);
  expect(done.status).toBe(302);
});

describe("a login that is not fully done", () => {
  const codes = async (id: string) =>
    (await c.ctx.store.db.selectFrom("oidc_login").select("code_hash").where("id", "=", id).execute()).map(
      (row) => row.code_hash,
    );

  it.each([
    ["a one-time code", async () => ({ requireTotp: true })],
    ["a token", async () => ({ requireExtJwtSigner: await c.make("external-jwt-signers", extJwtSigner("second")) })],
  ])("has no code while %s is missing", async (what, secondary) => {
    const policy = authPolicy(`needs ${what}`, { secondary: await secondary() });
    const { username } = await makeUser(c, { authPolicyId: await c.make("auth-policies", policy) });
    const flow = new OidcFlow(c);
    const id = await flow.begin();
    const proved = await postForm(c, "/oidc/login/password", flow.passwordFields(id, username));
    expect([proved.status, proved.headers.location, proved.json.authQueries.length]).toEqual([200, undefined, 1]);
    expect(await codes(id)).toEqual([null]);
    const again = await postForm(c, "/oidc/login/password", flow.passwordFields(id, username));
    expect([again.status, await codes(id)]).toEqual([200, [null]]);
    const answer = await c.call("GET", `/oidc/authorize/callback?id=${id}`);
    expect(String(answer.headers.location)).toContain("error=interaction_required");
  });

  it("is finished once by passwords that come at once", async () => {
    const { id: identity, username } = await makeUser(c);
    const flow = new OidcFlow(c);
    const id = await flow.begin();
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => postForm(c, "/oidc/login/password", flow.passwordFields(id, username))),
    );
    const finished = answers.filter(({ status }) => status === 302);
    expect([finished.length, answers.filter(({ status }) => status === 401).length]).toEqual([1, 4]);
    const rows = await c.ctx.store.db
      .selectFrom("api_session")
      .select("id")
      .where("identity_id", "=", identity)
      .execute();
    expect(rows).toHaveLength(1);
    const { access_token } = await flow.tokens(callbackIn(finished[0] as Answer));
    expect(claimsOf(access_token).z_asid).toBe(rows[0]?.id);
  });
});

describe("tokens with the key of the network and a spoilt signature", () => {
  it.each([
    ["/oidc/oauth/token", (token: string) => new OidcFlow(c).refreshFields(token)],
    ["/oidc/oauth/token", (token: string) => exchangeFields(token)],
    ["/oidc/revoke", (token: string) => Object.entries({ client_id: "openziti", token })],
    ["/oidc/end_session", (token: string) => Object.entries({ id_token_hint: token })],
  ])("count for their address at %s", async (path, fieldsOf) => {
    const { username } = await makeUser(c);
    const { access_token } = await logIn(c, username);
    const spoilt = `${access_token.slice(0, access_token.lastIndexOf("."))}.${"A".repeat(86)}`;
    const admit = vi.spyOn(AttemptLimits.prototype, "admit");
    await postForm(c, path, fieldsOf(spoilt));
    expect(admit).toHaveBeenCalledTimes(1);
    admit.mockRestore();
  });
});

describe("before anything is proved", () => {
  it("a form or query has a bounded number of parameters", async () => {
    const many = (count: number) => Array.from({ length: count }, () => ["a", ""] as const);
    for (const path of ["/oidc/authorize", "/oidc/oauth/token", "/oidc/revoke", "/oidc/end_session"]) {
      const answer = await postForm(c, path, many(MAX_PARAMETERS + 1));
      expect([answer.status, answer.text.includes(`more than ${MAX_PARAMETERS} parameters`)], path).toEqual([
        400,
        true,
      ]);
    }
    const { text } = await postForm(c, "/oidc/authorize", many(MAX_PARAMETERS));
    expect(text).toContain("client_id missing");
  });

  it("a login stores config types of a bounded length", async () => {
    const flow = new OidcFlow(c);
    const begin = (length: number) =>
      postForm(c, "/oidc/authorize", [...flow.authorizeFields(), ["configTypes", "x".repeat(length)]]);
    expect((await begin(MAX_CONFIG_TYPE_CHARACTERS)).headers.location).toContain("authRequestID=");
    const { status, headers } = await begin(MAX_CONFIG_TYPE_CHARACTERS + 1);
    expect([status, String(headers.location)]).toEqual([302, expect.stringContaining("error=invalid_request")]);
  });

  it("a certificate request costs nothing without a credential", async () => {
    const { username } = await makeUser(c);
    const flow = new OidcFlow(c);
    const id = await flow.begin();
    const withCsr = (password: string) =>
      postForm(c, "/oidc/login/password", [...flow.passwordFields(id, username, password), ["csrPem", "spoilt"]]);
    expect((await withCsr("wrong")).json.code).toBe("INVALID_AUTH");
    const answer = await withCsr(TEST_PASSWORD);
    expect([answer.status, answer.json.message]).toEqual([400, expect.stringContaining("invalid CSR")]);
    // Nothing of it stays: the login goes on.
    await flow.password(id, username);
  });
});

describe("who holds an access token", () => {
  const again = (token: string) => postForm(c, "/oidc/oauth/token", exchangeFields(token));
  const revoke = (token: string) =>
    postForm(c, "/oidc/revoke", [
      ["client_id", "openziti"],
      ["token", token],
    ]);

  it("cannot renew it past its end", async () => {
    const { username } = await makeUser(c);
    const { access_token } = await logIn(c, username);
    c.clock.offsetMs = c.ctx.settings.oidc.accessMs - 120_000;
    const { json } = await again(access_token);
    expect(claimsOf(json.access_token).exp).toBe(claimsOf(access_token).exp);
    expect(json.expires_in).toBeLessThanOrEqual(120);
    expect((await ask(json.access_token)).status).toBe(200);
    c.clock.offsetMs = c.ctx.settings.oidc.accessMs + 1_000;
    expect((await ask(json.access_token)).status).toBe(401);
    expect((await again(json.access_token)).json.error).toBe("invalid_grant");
  });

  it("cannot fill the memory of controllers and routers with revoked ones: the session ends", async () => {
    const { username } = await makeUser(c);
    const { access_token } = await logIn(c, username);
    for (let i = 0; i < SINGLE_REVOCATIONS.burst; i++) {
      const { json } = await again(access_token);
      expect((await revoke(json.access_token)).status).toBe(200);
    }
    expect((await ask(access_token)).status).toBe(200);
    const { json } = await again(access_token);
    expect((await revoke(json.access_token)).status).toBe(200);
    expect((await ask(access_token)).status).toBe(401);
    await expect(c.model.revocations.get(claimsOf(json.access_token).jti)).rejects.toMatchObject({ status: 404 });
  });
});
