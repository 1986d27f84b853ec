/** What the provider answers to each bad input (docs/oidc.md, "Endpoints"): the status, the code, and where a redirect may lead. */
import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, startTestController, type TestController } from "../api/testing/test-controller.ts";
import { MAX_LOGIN_BYTES } from "./provider.ts";
import {
  EXCHANGE,
  type Fields,
  formText,
  locationOf,
  OidcTestClient,
  passwordIdentity,
  REDIRECT_URI,
  redirected,
  TOKEN_TYPE,
} from "./testing/oidc-client.ts";

let t: TestController;
let client: OidcTestClient;
beforeAll(async () => {
  t = await startTestController();
  client = new OidcTestClient(t);
  await passwordIdentity(t, "anna");
});
afterAll(() => t.close());

const CREDENTIALS = { username: "anna", password: "password" };
const json = (path: string, body: object | string, headers: Record<string, string> = {}) =>
  client.call("POST", path, { body, headers });
const loggedIn = async (): Promise<Record<string, string>> => (await client.logIn("password", CREDENTIALS)).json;
const newCode = async () =>
  client.codeOf(await json("/oidc/login/password", { id: await client.begin(), ...CREDENTIALS }));
const oauth = ({ status, json }: Answer) => [status, json?.error];
const login = ({ status, json }: Answer) => [status, json?.code];

describe("every endpoint", () => {
  const PATHS = [
    ...["/.well-known/openid-configuration", "/keys", "/authorize", "/authorize/callback", "/login/username"],
    ...["/login/cert", "/login/auth-queries", "/end_session", "/userinfo", "/healthz", "/logged-out"],
  ];

  test.each(PATHS)("refuses an unknown host and what it cannot answer: %s", async (path) => {
    const stranger = await client.get(`/oidc${path}`, { host: "evil.example" });
    expect([stranger.status, stranger.text]).toEqual([404, "404 page not found"]);
    expect(stranger.headers["content-type"]).toBe("text/plain; charset=utf-8");
    expect((await client.get(`/oidc${path}`, { accept: "image/png" })).status).toBe(406);
    const put = await client.call("PUT", `/oidc${path}`);
    expect(put.status).toBe(405);
    expect(put.headers.allow).toMatch(/GET/);
    for (const query of ["%", "a=%00", "a=%ff"]) expect((await client.get(`/oidc${path}?${query}`)).status).toBe(400);
    expect(put.headers["ziti-instance-id"]).toBeUndefined();
  });

  test.each([
    ["/oidc/login/password", MAX_LOGIN_BYTES],
    ["/oidc/oauth/token", MAX_LOGIN_BYTES],
    ["/oidc/revoke", 1_048_576],
  ])("refuses a body that is too long, or of another type: %s", async (path, max) => {
    expect((await client.form(path, `x=${"a".repeat(max)}`)).status).toBe(413);
    for (const type of ["text/plain", "multipart/form-data; boundary=x", ""]) {
      const { status } = await client.call("POST", path, { body: "a=1", headers: { "content-type": type } });
      expect(status, type).toBe(415);
    }
  });

  test("answers a browser with a page of the same status", async () => {
    const accept = "text/html";
    const page = await client.get("/oidc/authorize", { accept });
    expect([page.status, page.headers["content-type"]]).toEqual([400, expect.stringMatching(/^text\/html/)]);
    expect((await client.get(`/oidc/login/username?authRequestID=<b>x</b>`, { accept })).text).not.toContain("<b>x");
  });
});

describe("a request for a login", () => {
  test.each<[Fields, string]>([
    [{ client_id: undefined }, "invalid_request"],
    [{ client_id: "" }, "invalid_request"],
    [{ client_id: "other" }, "invalid_client"],
    [{ redirect_uri: undefined }, "invalid_request"],
    [{ redirect_uri: "http://localhost/auth/callback" }, "invalid_request"],
    [{ redirect_uri: "https://evil.example/auth/callback" }, "invalid_request"],
    [{ redirect_uri: `http://localhost:1/auth/callback?${"a".repeat(1_024)}` }, "invalid_request"],
    [{ redirect_uri: "http://localhost:1/auth/callback#x" }, "invalid_request"],
    [{ redirect_uri: "/auth/callback" }, "invalid_request"],
  ])("with %j is answered without a redirect", async (change, error) => {
    const answer = await client.authorize({ state: "secret-state", ...change });
    expect(oauth(answer)).toEqual([400, error]);
    expect(answer.headers.location).toBeUndefined();
    expect(answer.text).not.toContain("secret-state");
  });

  test("with a client or an address that comes twice is answered without a redirect", async () => {
    for (const name of ["client_id", "redirect_uri"] as const) {
      const query = `${formText(client.wanted)}&${name}=${encodeURIComponent(client.wanted[name] ?? "")}`;
      expect(oauth(await client.get(`/oidc/authorize?${query}`)), name).toEqual([400, "invalid_request"]);
      expect(oauth(await client.form(`/oidc/authorize?${query}`, "")), name).toEqual([400, "invalid_request"]);
    }
  });

  test.each<[Fields, string]>([
    [{ response_type: undefined }, "invalid_request"],
    [{ response_type: "token" }, "unsupported_response_type"],
    [{ response_type: "code id_token" }, "unsupported_response_type"],
    [{ response_mode: "fragment" }, "invalid_request"],
    [{ scope: undefined }, "invalid_scope"],
    [{ scope: "profile offline_access" }, "invalid_scope"],
    [{ code_challenge: undefined }, "invalid_request"],
    [{ code_challenge: "a".repeat(42) }, "invalid_request"],
    [{ code_challenge: "a".repeat(44) }, "invalid_request"],
    [{ code_challenge: `${"a".repeat(42)}+` }, "invalid_request"],
    [{ code_challenge_method: undefined }, "invalid_request"],
    [{ code_challenge_method: "plain" }, "invalid_request"],
    [{ nonce: "n".repeat(513) }, "invalid_request"],
    [{ request: "eyJ" }, "request_not_supported"],
    [{ request_uri: "https://evil.example" }, "request_uri_not_supported"],
    [{ prompt: "none" }, "login_required"],
  ])("with %j goes back to its client", async (change, error) => {
    const answer = await client.authorize(change);
    expect(locationOf(answer).startsWith(`${REDIRECT_URI}?error=`)).toBe(true);
    expect(redirected(answer)).toEqual({ error, error_description: expect.any(String), state: "a state" });
  });

  test("with too much of something goes back without repeating it", async () => {
    const long = await client.authorize({ state: "s".repeat(1_025) });
    expect(redirected(long)).toEqual({ error: "invalid_request", error_description: expect.any(String) });
    const twice = await client.get(`/oidc/authorize?${formText(client.wanted)}&state=b`);
    expect(redirected(twice)).toEqual({ error: "invalid_request", error_description: "send state once" });
    const types = "&configTypes=a".repeat(1_001);
    expect(redirected(await client.form("/oidc/authorize", formText(client.wanted) + types)).error).toBe(
      "invalid_request",
    );
  });

  test("may carry what the provider does not know", async () => {
    expect((await client.authorize({ audience: "openziti", ui_locales: "de", scope: "openid profile x" })).status).toBe(
      302,
    );
  });
});

describe("a step of a login", () => {
  test("needs the id of a login that is open; all others look alike", async () => {
    for (const path of ["password", "username", "cert", "ext-jwt", "totp", "totp/enroll", "totp/enroll/verify"]) {
      expect(login(await json(`/oidc/login/${path}`, {})), path).toEqual([400, "COULD_NOT_VALIDATE"]);
      for (const id of ["x", "0f0e0d0c-0b0a-4908-8706-050403020100", "y".repeat(4_000)]) {
        expect(login(await json(`/oidc/login/${path}`, { id })), path).toEqual([401, "UNAUTHORIZED"]);
      }
    }
    for (const path of ["password", "cert", "auth-queries"]) {
      expect(login(await client.get(`/oidc/login/${path}?authRequestID=x`)), path).toEqual([401, "UNAUTHORIZED"]);
    }
    const over = await client.begin();
    t.clock.offsetMs = 600_001;
    expect(login(await json("/oidc/login/password", { id: over, ...CREDENTIALS }))).toEqual([401, "UNAUTHORIZED"]);
    t.clock.offsetMs = 0;
  });

  test.each<[string, object | string, number, string]>([
    ["another name", { username: "nobody", password: "password" }, 401, "INVALID_AUTH"],
    ["a wrong password", { username: "anna", password: "wrong" }, 401, "INVALID_AUTH"],
    ["a number for a password", { username: "anna", password: 1 }, 400, "COULD_NOT_VALIDATE"],
    ["a password that is far too long", { username: "anna", password: "p".repeat(5_000) }, 400, "COULD_NOT_VALIDATE"],
    ["too many config types", { ...CREDENTIALS, configTypes: Array(1_001).fill("a") }, 400, "COULD_NOT_VALIDATE"],
    ["a certificate request that is none", { ...CREDENTIALS, csrPem: "x" }, 400, "invalid_request"],
    ["a list", [], 400, "COULD_NOT_PARSE_BODY"],
  ])("with %s is refused and the login stays open", async (_name, body, status, code) => {
    const id = await client.begin();
    const path = `/oidc/login/password?id=${id}`;
    const answer = await json(path, body);
    expect(login(answer)).toEqual([status, code]);
    expect(answer.text).not.toMatch(/ppppp|wrong/);
    expect((await json(path, CREDENTIALS)).status).toBe(302);
  });

  test("is refused when its body cannot be read", async () => {
    const id = await client.begin();
    const headers = { "content-type": "application/json" };
    expect(login(await json(`/oidc/login/password?id=${id}`, "{", headers))).toEqual([400, "COULD_NOT_PARSE_BODY"]);
    const form = `id=${id}&username=anna&username=anna&password=password`;
    expect(login(await client.form("/oidc/login/password", form))).toEqual([400, "invalid_request"]);
  });
});

test("a callback is for its finisher, once there is a code, and until the code is used", async () => {
  expect(oauth(await client.get("/oidc/authorize/callback"))).toEqual([400, "invalid_request"]);
  expect(oauth(await client.get(`/oidc/authorize/callback?id=${"x".repeat(43)}`))).toEqual([400, "invalid_request"]);
  const id = await client.begin();
  expect(redirected(await client.get(`/oidc/authorize/callback?id=${id}`)).error).toBe("interaction_required");
  const finished = await json("/oidc/login/password", { id, ...CREDENTIALS });
  const { pathname, search } = new URL(locationOf(finished));
  await client.exchange(await client.codeOf(finished));
  expect(oauth(await client.get(pathname + search))).toEqual([400, "invalid_request"]);
});

describe("a token request", () => {
  test("needs a grant type and a client that it knows", async () => {
    const path = "/oidc/oauth/token";
    const missing = await json(path, { grant_type: "authorization_code", client_id: "openziti" });
    expect(missing.json).toEqual({ error: "invalid_request", error_description: "grant_type missing" });
    expect(oauth(await client.form(path, ""))).toEqual([400, "invalid_request"]);
    expect(oauth(await client.form(path, { grant_type: "password", client_id: "openziti" }))).toEqual([
      400,
      "unsupported_grant_type",
    ]);
    expect(oauth(await client.form(`${path}?grant_type=refresh_token&client_id=openziti`, "x=1"))).toEqual([
      400,
      "invalid_request",
    ]);
    for (const client_id of [undefined, "other"]) {
      const answer = await client.form(path, { grant_type: "refresh_token", client_id, refresh_token: "x" });
      expect(oauth(answer)).toEqual([400, "invalid_client"]);
      expect(answer.headers["www-authenticate"]).toBeUndefined();
    }
    const basic = await client.form(path, { grant_type: "refresh_token" }, { authorization: "Basic b3RoZXI6" });
    expect(oauth(basic)).toEqual([401, "invalid_client"]);
    expect(basic.headers["www-authenticate"]).toMatch(/^Basic /);
  });

  test.each<[Fields, string]>([
    [{ code: undefined }, "invalid_grant"],
    [{ code: "x" }, "invalid_grant"],
    [{ code: "x".repeat(43) }, "invalid_grant"],
    [{ client_id: "native" }, "invalid_grant"],
    [{ redirect_uri: undefined }, "invalid_grant"],
    [{ redirect_uri: "http://localhost:8081/auth/callback" }, "invalid_grant"],
    [{ code_verifier: undefined }, "invalid_request"],
    [{ code_verifier: "short" }, "invalid_grant"],
    [{ code_verifier: "w".repeat(43) }, "invalid_grant"],
    [{ code_verifier: "w".repeat(129) }, "invalid_grant"],
  ])("for a code with %j", async (change, error) => {
    expect(oauth(await client.exchange(await newCode(), change))).toEqual([400, error]);
  });

  test("with a wrong verifier uses the code up", async () => {
    const code = await newCode();
    const wrong = await client.exchange(code, { code_verifier: "w".repeat(43) });
    expect(wrong.json.error_description).toBe("invalid code_verifier");
    expect(oauth(await client.exchange(code))).toEqual([400, "invalid_grant"]);
  });

  test("for a code that is over, or of an identity that was disabled meanwhile", async () => {
    const id = await passwordIdentity(t, "bert");
    const bert = { ...CREDENTIALS, username: "bert" };
    const code = await client.codeOf(await json("/oidc/login/password", { id: await client.begin(), ...bert }));
    await t.admin("POST", `/identities/${id}/disable`, { durationMinutes: 0 });
    expect(oauth(await client.exchange(code))).toEqual([400, "invalid_grant"]);
    const late = await newCode();
    t.clock.offsetMs = 1_800_001;
    expect(oauth(await client.exchange(late))).toEqual([400, "invalid_grant"]);
    t.clock.offsetMs = 0;
  });

  test("refuses refresh tokens that are none", async () => {
    const tokens = await loggedIn();
    const refresh = tokens.refresh_token ?? "";
    const [header = "", payload = "", signature = ""] = refresh.split(".");
    const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const decoded = (text: string) => JSON.parse(Buffer.from(text, "base64url").toString());
    const { kid } = decoded(header);
    const none = `${encoded({ alg: "none", kid, typ: "JWT" })}.${payload}.`;
    const hs256 = `${encoded({ alg: "HS256", kid, typ: "JWT" })}.${payload}`;
    const [key] = (await client.get("/oidc/keys")).json.keys;
    const hmac = createHmac("sha256", JSON.stringify(key)).update(hs256).digest("base64url");
    const bad = [
      ...[
        "x",
        "a.b.c",
        `${header}.${payload}`,
        `${header}.${payload}.${signature.slice(0, -4)}AAAA`,
        none,
        `${hs256}.${hmac}`,
      ],
      `${header}.${encoded({ ...decoded(payload), sub: "admin" })}.${signature}`,
      `${encoded({ ...decoded(header), kid: "0".repeat(40) })}.${payload}.${signature}`,
      `${encoded({ ...decoded(header), alg: "RS256" })}.${payload}.${signature}`,
      tokens.access_token ?? "",
      tokens.id_token ?? "",
    ];
    for (const token of bad) {
      const answer = await client.refresh(token);
      expect(oauth(answer), token).toEqual([400, "invalid_grant"]);
      expect(answer.text).not.toContain(payload);
    }
    expect(oauth(await client.refresh(""))).toEqual([400, "invalid_request"]);
    const other = await client.refresh(refresh, { client_id: "native" });
    expect(other.json).toEqual({
      error: "invalid_grant",
      error_description: "client_id does not match original grant",
    });
    // None of this was a use of the token.
    expect((await client.refresh(refresh)).status).toBe(200);
  });

  test.each<[Fields, string]>([
    [{ subject_token: undefined }, "invalid_request"],
    [{ subject_token: "x" }, "invalid_grant"],
    [{ subject_token_type: undefined }, "invalid_request"],
    [{ subject_token_type: `${TOKEN_TYPE}jwt` }, "invalid_request"],
    [{ subject_token_type: `${TOKEN_TYPE}id_token` }, "invalid_request"],
    [{ subject_token_type: `${TOKEN_TYPE}access_token` }, "invalid_grant"],
    [{ requested_token_type: `${TOKEN_TYPE}saml2` }, "invalid_request"],
    [{ actor_token: "x" }, "invalid_request"],
    [{ audience: "other" }, "invalid_target"],
    [{ resource: "https://x.example" }, "invalid_target"],
    [{ scope: "email" }, "invalid_scope"],
  ])("to exchange with %j", async (change, error) => {
    const { refresh_token: subject_token } = await loggedIn();
    const fields = {
      grant_type: EXCHANGE,
      client_id: "openziti",
      subject_token,
      subject_token_type: `${TOKEN_TYPE}refresh_token`,
    };
    expect(oauth(await client.form("/oidc/oauth/token", { ...fields, ...change }))).toEqual([400, error]);
    expect((await client.form("/oidc/oauth/token", { ...fields, audience: "openziti" })).status).toBe(200);
  });
});

test("a revocation needs a token and its client", async () => {
  const { refresh_token: token, access_token } = await loggedIn();
  expect(oauth(await client.form("/oidc/revoke", { client_id: "openziti" }))).toEqual([400, "invalid_request"]);
  expect(oauth(await client.form("/oidc/revoke", { token }))).toEqual([400, "invalid_client"]);
  for (const each of [token, access_token]) {
    expect(oauth(await client.form("/oidc/revoke", { token: each, client_id: "native" }))).toEqual([
      400,
      "invalid_client",
    ]);
  }
  expect((await client.refresh(token ?? "")).status).toBe(200);
});

test("a logout needs an id token, its client, and an address that is registered", async () => {
  const { id_token: id_token_hint, access_token = "" } = await loggedIn();
  const target = "http://localhost:1/auth/logout";
  for (const fields of [
    { post_logout_redirect_uri: target },
    { id_token_hint: "x" },
    { id_token_hint: access_token },
    { id_token_hint, client_id: "native" },
    { id_token_hint, post_logout_redirect_uri: "https://evil.example/auth/logout" },
    { id_token_hint, state: "s".repeat(1_025) },
  ]) {
    const answer = await client.get(`/oidc/end_session?${formText(fields)}`);
    expect(oauth(answer), JSON.stringify(Object.keys(fields))).toEqual([400, "invalid_request"]);
    expect(answer.headers.location).toBeUndefined();
  }
  expect((await client.api(access_token)).status).toBe(200);
});

test("who one is needs an access token", async () => {
  const { refresh_token } = await loggedIn();
  for (const headers of [{}, { authorization: "Bearer x" }, { authorization: `Bearer ${refresh_token}` }]) {
    const answer = await client.get("/oidc/userinfo", headers);
    expect(oauth(answer)).toEqual([401, "invalid_token"]);
    expect(answer.headers["www-authenticate"]).toContain('error="invalid_token"');
  }
});

test("nothing is served where it is off", async () => {
  const off = await startTestController({ oidc: { enabled: false } });
  const there = new OidcTestClient(off);
  for (const path of ["/.well-known/openid-configuration", "/authorize", "/keys", "/login/password"]) {
    expect((await there.get(`/oidc${path}`)).status).toBe(404);
  }
  await off.close();
});
