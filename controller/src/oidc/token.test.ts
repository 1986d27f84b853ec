import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { type Answer, startTestController, type TestController } from "../api/testing/test-controller.ts";
import {
  type Certificate,
  certificateIdentity,
  certificateRequest,
  claimsOf,
  locationOf,
  OidcTestClient,
  passwordIdentity,
  TOKEN_TYPE,
} from "./testing/oidc-client.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

let t: TestController;
let client: OidcTestClient;
let anna: string;
let carol: Certificate & { readonly id: string };
beforeAll(async () => {
  t = await startTestController();
  client = new OidcTestClient(t);
  anna = await passwordIdentity(t, "anna");
  carol = await certificateIdentity(t, "carol");
});
afterAll(() => t.close());
afterEach(() => {
  t.clock.offsetMs = 0;
});

interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string;
  readonly id_token: string;
}

const logIn = async (as = client, change = {}): Promise<Tokens> =>
  (await as.logIn("password", { username: "anna", password: "password" }, change)).json;
const bound = () => new OidcTestClient(t, { cert: carol.cert, key: carol.key });
const logInBound = async (as = bound()): Promise<Tokens> => (await as.logIn("cert")).json;
const isGood = async (token: string, as = client) => (await as.api(token)).status === 200;
const refusal = ({ status, json }: Answer) => [status, json.error];
const USED = "the refresh token was used before: log in again";

describe("a refresh", () => {
  test("gives new tokens of the same session, and starts its time again", async () => {
    const first = await logIn();
    t.clock.offsetMs = 20 * HOUR_MS;
    const answer = await client.refresh(first.refresh_token);
    expect(answer.status).toBe(200);
    const { access_token, refresh_token, id_token } = answer.json;
    const [before, after] = [claimsOf(first.access_token), claimsOf(access_token)];
    expect(after).toMatchObject({
      ...{ z_asid: before.z_asid, auth_time: before.auth_time, amr: before.amr, scopes: before.scopes, sub: anna },
    });
    expect(after.iat).toBeGreaterThan(before.iat);
    expect(claimsOf(refresh_token).exp - claimsOf(refresh_token).iat).toBe(24 * 3_600);
    expect(claimsOf(id_token)).toMatchObject({ sub: anna, auth_time: before.auth_time });
    expect(answer.json).toMatchObject({ token_type: "Bearer", expires_in: 1_800, scope: "openid offline_access" });
    t.clock.offsetMs = 40 * HOUR_MS;
    expect((await client.refresh(refresh_token)).status).toBe(200);
  });

  test("may ask for less for its own tokens, and never for more", async () => {
    const { refresh_token } = await logIn();
    expect(refusal(await client.refresh(refresh_token, { scope: "email" }))).toEqual([400, "invalid_scope"]);
    const narrow = await client.refresh(refresh_token, { scope: "openid profile" });
    expect(narrow.json.scope).toBe("openid");
    expect(claimsOf(narrow.json.access_token).scopes).toEqual(["openid"]);
    expect((await client.refresh(narrow.json.refresh_token)).json.scope).toBe("openid offline_access");
  });

  test("with a token that was used before ends the session", async () => {
    const first = await logIn();
    const second = (await client.refresh(first.refresh_token)).json;
    const failed = vi.spyOn(t.authentication, "noteFailure");
    const again = await client.refresh(first.refresh_token);
    const attempt = { method: "refresh-token", remoteIp: "127.0.0.1" };
    const detail = expect.stringContaining(claimsOf(first.access_token).z_asid);
    expect(failed.mock.calls).toEqual([[attempt, expect.objectContaining({ detail })]]);
    failed.mockRestore();
    expect([again.status, again.json]).toEqual([400, { error: "invalid_grant", error_description: USED }]);
    expect(await isGood(second.access_token)).toBe(false);
    expect((await client.refresh(second.refresh_token)).json.error).toBe("invalid_grant");
  });

  test("of several at once with one token lets one win, and the session ends", async () => {
    const { refresh_token } = await logIn();
    const all = await Promise.all(Array.from({ length: 8 }, () => client.refresh(refresh_token)));
    expect(all.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(1);
    expect(all.filter(({ status }) => status === 400).length).toBeGreaterThanOrEqual(7);
    for (const { json } of all) if (json.access_token) expect(await isGood(json.access_token)).toBe(false);
  });

  test("of a client with a certificate may be repeated for a minute, while the successor is unused", async () => {
    const as = bound();
    const first = await logInBound(as);
    const lost = await as.refresh(first.refresh_token);
    expect(lost.status).toBe(200);
    const repeated = await as.refresh(first.refresh_token);
    expect(repeated.status).toBe(200);
    const next = await as.refresh(repeated.json.refresh_token);
    expect(next.status).toBe(200);
    // The successor was used: now the first one is a copy.
    expect((await as.refresh(first.refresh_token)).json.error_description).toBe(USED);
    expect(await isGood(next.json.access_token, as)).toBe(false);

    const late = await logInBound(as);
    const taken = await as.refresh(late.refresh_token);
    t.clock.offsetMs = MINUTE_MS + 1_000;
    expect((await as.refresh(late.refresh_token)).json.error_description).toBe(USED);
    expect((await as.refresh(taken.json.refresh_token)).status).toBe(400);
  });

  test("needs the certificate that the tokens are bound to", async () => {
    const { refresh_token } = await logInBound();
    const other = await certificateIdentity(t, "mallory");
    for (const as of [client, new OidcTestClient(t, { cert: other.cert, key: other.key })]) {
      const answer = await as.refresh(refresh_token);
      expect(answer.json).toEqual({
        error: "access_denied",
        error_description: "peer certificate fingerprint does not match token",
      });
    }
    expect((await bound().refresh(refresh_token)).status).toBe(200);
  });

  test("with a certificate request replaces the session's certificate; without a bound session it is ignored", async () => {
    const [one, two] = [await certificateRequest("x"), await certificateRequest("x")];
    const made = (await client.logIn("password", { username: "anna", password: "password", csrPem: one.csr })).json;
    const first = new OidcTestClient(t, { cert: made.session_cert, key: one.key });
    expect((await first.refresh(made.refresh_token, { csr_pem: "none" })).json.error_description).toMatch(
      /^invalid CSR: /,
    );
    const renewed = (await first.refresh(made.refresh_token, { csr_pem: two.csr })).json;
    const second = new OidcTestClient(t, { cert: renewed.session_cert, key: two.key });
    expect(await isGood(renewed.access_token, second)).toBe(true);
    expect(claimsOf(renewed.access_token).z_cfs).toHaveLength(1);
    const { refresh_token } = await logIn();
    const plain = await client.refresh(refresh_token, { csr_pem: two.csr });
    expect([plain.status, plain.json.session_cert]).toEqual([200, undefined]);
  });

  test("is refused once the identity is disabled, its session is over, or the session has ended", async () => {
    const tokens = await logIn();
    await t.admin("POST", `/identities/${anna}/disable`, { durationMinutes: 0 });
    expect(refusal(await client.refresh(tokens.refresh_token))).toEqual([400, "invalid_grant"]);
    await t.admin("POST", `/identities/${anna}/enable`, {});
    const over = await logIn();
    t.clock.offsetMs = 25 * HOUR_MS;
    expect((await client.refresh(over.refresh_token)).json.error_description).toBe(
      "the refresh token has expired: log in again",
    );
    t.clock.offsetMs = 0;
    const ended = await logIn();
    await t.model.oidcSessions.end(claimsOf(ended.access_token).z_asid, "revoked");
    expect(refusal(await client.refresh(ended.refresh_token))).toEqual([400, "invalid_grant"]);
  });
});

describe("an exchange", () => {
  const native = () => new OidcTestClient(t, { clientId: "native" });
  const asks = (kind: string) => ({ requested_token_type: TOKEN_TYPE + kind });

  test("renews tokens as clients in Go do it: one refresh token, first for a new one, then for an id token", async () => {
    const as = native();
    const first = await logIn(as);
    const empty = { actor_token: "", actor_token_type: "", scope: "" };
    const renewed = await as.exchangeToken(first.refresh_token, { ...asks("refresh_token"), ...empty });
    expect(renewed.json).toEqual({
      access_token: expect.any(String),
      issued_token_type: `${TOKEN_TYPE}refresh_token`,
      token_type: "Bearer",
      expires_in: 1_800,
      scope: "openid offline_access",
      refresh_token: expect.any(String),
    });
    const id = await as.exchangeToken(first.refresh_token, asks("id_token"));
    expect(id.json).toMatchObject({ issued_token_type: `${TOKEN_TYPE}id_token`, token_type: "N_A" });
    expect(claimsOf(id.json.access_token)).toMatchObject({ sub: anna, name: "anna", aud: ["native"] });
    expect(id.json.refresh_token).toBeUndefined();
    const { amr, auth_time, scopes } = claimsOf(first.access_token);
    expect(claimsOf(renewed.json.access_token)).toMatchObject({ amr, auth_time, scopes });
    // It granted nothing: the session goes on, and the next round works.
    const next = await as.exchangeToken(renewed.json.refresh_token);
    expect(next.status).toBe(200);
    expect(await isGood(next.json.access_token)).toBe(true);
  });

  test("of a replaced refresh token for an id token works for a minute, and then ends the session", async () => {
    const as = native();
    const first = await logIn(as);
    const renewed = await as.exchangeToken(first.refresh_token);
    const refused = await as.exchangeToken(first.refresh_token, asks("access_token"));
    expect(refusal(refused)).toEqual([400, "invalid_grant"]);
    expect(await isGood(renewed.json.access_token)).toBe(true);
    t.clock.offsetMs = MINUTE_MS + 1_000;
    expect((await as.exchangeToken(first.refresh_token, asks("id_token"))).json.error_description).toBe(USED);
    expect(await isGood(renewed.json.access_token)).toBe(false);
  });

  test("of a refresh token for an access token rotates nothing", async () => {
    const as = native();
    const { refresh_token } = await logIn(as);
    const made = await as.exchangeToken(refresh_token, asks("access_token"));
    expect(made.json.issued_token_type).toBe(`${TOKEN_TYPE}access_token`);
    expect(made.json.refresh_token).toBeUndefined();
    expect(await isGood(made.json.access_token)).toBe(true);
    expect((await as.exchangeToken(refresh_token)).status).toBe(200);
  });

  test("of an access token gives one that lasts no longer than the session, and no refresh token", async () => {
    const as = native();
    const { access_token } = await logIn(as, { scope: "openid" });
    const given = { subject_token_type: `${TOKEN_TYPE}access_token` };
    t.clock.offsetMs = 20 * MINUTE_MS;
    const made = await as.exchangeToken(access_token, given);
    expect(made.json).toMatchObject({ issued_token_type: `${TOKEN_TYPE}access_token`, scope: "openid" });
    expect(made.json.expires_in).toBeLessThanOrEqual(600);
    expect((await as.exchangeToken(access_token, { ...given, ...asks("id_token") })).status).toBe(200);
    expect(refusal(await as.exchangeToken(access_token, { ...given, ...asks("refresh_token") }))).toEqual([
      400,
      "invalid_request",
    ]);
    t.clock.offsetMs = 31 * MINUTE_MS;
    expect(await isGood(made.json.access_token)).toBe(false);
  });

  test("of a token with fewer scopes gives no more than that", async () => {
    const as = native();
    const { access_token } = (await as.refresh((await logIn(as)).refresh_token, { scope: "openid" })).json;
    const given = { subject_token_type: `${TOKEN_TYPE}access_token` };
    expect((await as.exchangeToken(access_token, given)).json.scope).toBe("openid");
    expect(refusal(await as.exchangeToken(access_token, { ...given, scope: "openid offline_access" }))).toEqual([
      400,
      "invalid_scope",
    ]);
  });

  test("looks at revocation: neither a revoked access token nor its session gives another", async () => {
    const as = native();
    const { access_token } = await logIn(as);
    const given = { subject_token_type: `${TOKEN_TYPE}access_token` };
    await as.form("/oidc/revoke", { token: access_token, client_id: "native" });
    expect(refusal(await as.exchangeToken(access_token, given))).toEqual([400, "invalid_grant"]);
  });
});

describe("an end before its time", () => {
  test("of an access token leaves its session, of a refresh token ends it", async () => {
    const tokens = await logIn();
    const other = (
      await client.exchangeToken(tokens.refresh_token, { requested_token_type: `${TOKEN_TYPE}access_token` })
    ).json;
    const revoked = await client.form("/oidc/oauth/revoke", {
      token: tokens.access_token,
      token_type_hint: "refresh_token",
      client_id: "openziti",
    });
    expect([revoked.status, revoked.text]).toEqual([200, ""]);
    expect(await isGood(tokens.access_token)).toBe(false);
    expect(await isGood(other.access_token)).toBe(true);
    expect((await client.form("/oidc/revoke", { token: tokens.refresh_token, client_id: "openziti" })).status).toBe(
      200,
    );
    expect(await isGood(other.access_token)).toBe(false);
    expect(refusal(await client.refresh(tokens.refresh_token))).toEqual([400, "invalid_grant"]);
    for (const token of [tokens.refresh_token, "x", "a.b.c"]) {
      expect((await client.form("/oidc/revoke", { token, client_id: "openziti" })).status).toBe(200);
    }
  });

  test("by logout needs an id token, ends its session and no other, and leads to a registered address", async () => {
    const [tokens, others] = [await logIn(), await logIn()];
    const target = "http://localhost:9/auth/logout";
    const query = (fields: Record<string, string>) => `/oidc/end_session?${new URLSearchParams(fields)}`;
    const answer = await client.get(
      query({ id_token_hint: tokens.id_token, client_id: "openziti", post_logout_redirect_uri: target, state: "s&" }),
    );
    expect(locationOf(answer)).toBe(`${target}?state=s%26`);
    expect(await isGood(tokens.access_token)).toBe(false);
    expect(await isGood(others.access_token)).toBe(true);
    // An id token says who logs out long after its end, and twice.
    t.clock.offsetMs = 2 * HOUR_MS;
    expect(locationOf(await client.get(query({ id_token_hint: tokens.id_token })))).toBe("/oidc/logged-out");
    expect(locationOf(await client.form("/oidc/end_session", ""))).toBe("/oidc/logged-out");
    expect((await client.get("/oidc/logged-out")).headers["content-type"]).toMatch(/^text\/html/);
  });
});

test("who one is can be asked with an access token", async () => {
  const { access_token } = await logIn();
  const authorization = `Bearer ${access_token}`;
  expect((await client.get("/oidc/userinfo", { authorization })).json).toEqual({ sub: anna, name: "anna" });
  expect((await client.form("/oidc/userinfo", "", { authorization })).json).toEqual({ sub: anna, name: "anna" });
});

test("the provider says what it can do under the name by which it was asked", async () => {
  const path = "/oidc/.well-known/openid-configuration";
  const answer = await client.get(path);
  expect(answer.headers["cache-control"]).toBe("public, max-age=60");
  expect(answer.json).toMatchObject({
    issuer: client.issuer,
    token_endpoint: `${client.issuer}/oauth/token`,
    code_challenge_methods_supported: ["S256"],
    id_token_signing_alg_values_supported: ["ES256"],
    openziti_endpoints: { totp_enroll_verify: `${client.issuer}/login/totp/enroll/verify` },
  });
  expect((await client.get(path, { host: "127.0.0.1:443" })).json.issuer).toBe("https://127.0.0.1/oidc");
  expect((await client.get("/.well-known/openid-configuration")).status).toBe(404);
  const { keys } = (await client.get("/oidc/keys")).json;
  expect(keys).toEqual([
    {
      use: "sig",
      kty: "EC",
      kid: expect.stringMatching(/^[0-9a-f]{40}$/),
      alg: "ES256",
      crv: "P-256",
      x: expect.any(String),
      y: expect.any(String),
    },
  ]);
  for (const path of ["/oidc/healthz", "/oidc/ready"]) expect((await client.get(path)).json).toEqual({ status: "ok" });
});
