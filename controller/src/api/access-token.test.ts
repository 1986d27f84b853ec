/** Access tokens in place of session tokens: what counts, in the order in which it is asked. */
import { createHmac, X509Certificate } from "node:crypto";
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { createCsr, createKeyPair, ProxiedRequestHeader } from "@sallyport/wire";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { Authentication } from "../auth/authentication.ts";
import { startTokenIssuer, type TokenIssuer } from "../auth/testing/token-issuer.ts";
import { totpCode } from "../model/identity/one-time-codes.ts";
import { authPolicy } from "./testing/auth-policy.ts";
import { beginOidcLogin, finishOidcLogin, loginByOidc, type OidcClient, tokenSubject } from "./testing/oidc-client.ts";
import { type Answer, type CallOptions, startTestController, type TestController } from "./testing/test-controller.ts";

const HOUR_S = 3_600;
const PASSWORD = "correct horse";

let c: TestController;
let idp: TokenIssuer;
let count = 0;
beforeAll(async () => {
  idp = await startTokenIssuer();
  await idp.addKey("k1");
  const jwks = { allowedNetworks: ["127.0.0.0/8"], caPem: idp.caPem };
  c = await startTestController({ auth: { ...CONTROLLER_DEFAULTS.auth, jwks } });
});
afterAll(async () => {
  await c.close();
  await idp.close();
});
beforeEach(() => {
  c.clock.offsetMs = 0;
});

interface User {
  readonly id: string;
  readonly authenticatorId: string;
  readonly username: string;
  readonly password: string;
}

async function user(more: object = {}): Promise<User> {
  count += 1;
  const username = `user-${count}`;
  const id = await c.make("identities", { name: username, type: "User", isAdmin: false, ...more });
  const body = { identityId: id, method: "updb", username, password: PASSWORD };
  return { id, username, password: PASSWORD, authenticatorId: await c.make("authenticators", body) };
}

const get = (path: string, options: CallOptions) => c.call("GET", `/edge/client/v1${path}`, options);
const bearer = (...tokens: string[]) => ({ headers: { authorization: tokens.map((token) => `Bearer ${token}`) } });
const ask = (...tokens: string[]) => get("/current-identity", bearer(...tokens));
/** Status, and what the challenges of a 401 say. */
const outcome = ({ status, headers }: Answer) => [
  status,
  ...(String(headers["www-authenticate"] ?? "").match(/^[\w-]+|(?<=error=")\w+/g) ?? []),
];
const INVALID = [401, "Bearer", "invalid"];

describe("an access token", () => {
  it("is a session of every API, with the rights of the identity's row", async () => {
    const one = await user({ isAdmin: true });
    const { headers } = await loginByOidc(c, one);
    const paths = ["/edge/client/v1/current-identity", "/edge/management/v1/identities", "/fabric/v1/routers"];
    const statuses = () =>
      Promise.all(paths.map(async (path) => (await c.call("GET", path, { headers: { ...headers } })).status));
    expect(await statuses()).toEqual([200, 200, 200]);
    expect((await c.call("GET", paths[0]!, { headers })).json.data.id).toBe(one.id);
    await c.admin("PATCH", `/identities/${one.id}`, { isAdmin: false });
    expect(await statuses()).toEqual([200, 401, 401]);
  });

  it("is shown as the current session, with its own times, and without the headers of an idle time-out", async () => {
    const one = await user();
    const { id, accessToken, headers } = await loginByOidc(c, one);
    const answer = await get("/current-api-session", { headers });
    expect(answer.headers).not.toHaveProperty("expiration-seconds");
    const { data } = answer.json;
    expect(data).toMatchObject({ id, token: accessToken, identityId: one.id, configTypes: ["all"], authQueries: [] });
    expect(data.createdAt).toBe(data.updatedAt);
    expect(Date.parse(data.expiresAt) - Date.parse(data.createdAt)).toBe(c.ctx.settings.oidc.accessMs);
    expect(data.expirationSeconds).toBeGreaterThan(c.ctx.settings.oidc.accessMs / 1_000 - 60);
    expect(data.ipAddress).toMatch(/^127\.0\.0\.1:\d+$/);
  });

  it("is listed by its session only, without a token, and not before the login is complete", async () => {
    const one = await user();
    const pending = await beginOidcLogin(c, one);
    const hasSession = async () => (await c.admin("GET", `/identities/${one.id}`)).json.data.hasApiSession;
    expect(await hasSession()).toBe(false);
    const { id } = await loginByOidc(c, one);
    const { data } = (await c.admin("GET", `/api-sessions?filter=${encodeURIComponent(`identity="${one.id}"`)}`)).json;
    expect(data.map((session: { id: string; token: string }) => [session.id, session.token])).toEqual([[id, ""]]);
    expect(await hasSession()).toBe(true);
    expect((await c.admin("GET", `/api-sessions/${pending}`)).status).toBe(404);
  });

  it("ends with a logout, for every token of the session", async () => {
    const one = await user();
    const { id, accessToken } = await loginByOidc(c, one);
    const newer = c.ctx.tokens.issuer.access(await tokenSubject(c, id));
    expect((await c.call("DELETE", "/edge/client/v1/current-api-session", bearer(newer.token))).status).toBe(200);
    for (const token of [accessToken, newer.token]) expect(outcome(await ask(token))).toEqual(INVALID);
  });

  it("is no session beside a session token, and none where OIDC is off", async () => {
    const one = await user();
    const { accessToken, headers } = await loginByOidc(c, await user());
    const token = await c.login(one.username, PASSWORD);
    expect((await get("/current-identity", { token, headers })).json.data.id).toBe(one.id);
    const ended = { token: "00000000-0000-0000-0000-000000000000", headers };
    expect(outcome(await get("/current-identity", ended))).toEqual([401, "zt-session", "invalid"]);
    expect((await get("/current-identity", {})).headers["www-authenticate"]).toMatch(/^zt-session .*, Bearer /);
    const { oidc } = c.ctx.settings;
    const off = { ...c.ctx, settings: { ...c.ctx.settings, oidc: { ...oidc, enabled: false } } };
    const request = { bearerTokens: [accessToken], peerCertificates: [], remoteIp: "::1" };
    const without = new Authentication(off, c.model, CONTROLLER_DEFAULTS.auth);
    expect(await without.sessionOfBearer(request)).toEqual({ refused: "missing" });
  });

  it("takes one read of its row, until that changes", async () => {
    const { id, accessToken } = await loginByOidc(c, await user());
    let reads = 0;
    const counted = new Authentication(c.ctx, c.model, CONTROLLER_DEFAULTS.auth, () => reads++);
    const request = { bearerTokens: [accessToken], peerCertificates: [], remoteIp: "::1" };
    const times = async (n: number) => {
      for (let i = 0; i < n; i++) expect(await counted.sessionOfBearer(request)).toMatchObject({ id });
    };
    await times(50);
    expect(reads).toBe(1);
    await c.model.oidcSessions.extend(id, new Date(Date.now() + HOUR_S * 1_000));
    await times(50);
    expect(reads).toBe(2);
  });
});

describe("401 by the token itself:", () => {
  let one: User;
  let client: OidcClient;
  let claims: Readonly<Record<string, unknown>>;
  beforeAll(async () => {
    one = await user();
    client = await loginByOidc(c, one);
    claims = payloadOf(client.accessToken);
  });
  const payloadOf = (token: string) =>
    JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as Record<string, unknown>;
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const signed = (change: object) => c.ctx.tokens.keys.signer().sign({ ...claims, ...change });
  const now = () => Math.floor(Date.now() / 1_000);
  const header = () => JSON.parse(Buffer.from(client.accessToken.split(".")[0] ?? "", "base64url").toString());

  it("the same claims signed anew count", async () => {
    expect((await ask(signed({}))).status).toBe(200);
  });

  it.each<[string, () => string | Promise<string>]>([
    ["a refresh token", () => client.refreshToken],
    ["an id token", async () => c.ctx.tokens.issuer.id(await tokenSubject(c, client.id), {}).token],
    ["a TOTP token", async () => c.ctx.tokens.issuer.totp(await tokenSubject(c, client.id), new Date()).token],
    [
      "a service token",
      () => {
        const row = { id: "s", apiSessionId: client.id, identityId: one.id, serviceId: "v", type: "Dial" } as const;
        return c.ctx.tokens.issuer.service(row, { isLegacy: false }).token;
      },
    ],
    ["another audience", () => signed({ aud: ["other"] })],
    ["not valid for another two minutes", () => signed({ nbf: now() + 120 })],
    ["no end", () => signed({ exp: undefined })],
    ["no session", () => signed({ z_asid: undefined })],
    ["a session that there is not", () => signed({ z_asid: "2eb97045-8d24-40d8-b8a7-000000000002" })],
    ["another identity", async () => signed({ sub: (await user()).id })],
    ["no id", () => signed({ jti: undefined })],
    ["a changed payload", () => client.accessToken.replace(/\.[^.]+\./, `.${encoded({ ...claims, z_ia: true })}.`)],
    ["alg none", () => `${encoded({ ...header(), alg: "none" })}.${encoded(claims)}.`],
    [
      "the public key as a shared secret",
      () => {
        const key = c.ctx.tokens.keys.published()[0]?.certificate.publicKey;
        const text = `${encoded({ ...header(), alg: "HS256" })}.${encoded(claims)}`;
        const secret = key?.export({ type: "spki", format: "pem" }) ?? "";
        return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
      },
    ],
  ])("%s", async (_, token) => {
    expect(outcome(await ask(await token()))).toEqual(INVALID);
  });

  it("an ended one says so, to the second", async () => {
    expect(outcome(await ask(signed({ exp: now() - 1 })))).toEqual([401, "Bearer", "expired"]);
  });

  it("clocks that differ by less than a minute do no harm", async () => {
    expect((await ask(signed({ nbf: now() + 30 }))).status).toBe(200);
  });

  it("a second token of this network, but an external one is nothing", async () => {
    const external = await idp.token({ sub: one.id });
    expect((await ask(external, client.accessToken, external)).status).toBe(200);
    expect(outcome(await ask(client.accessToken, signed({})))).toEqual(INVALID);
    expect(outcome(await ask(external))).toEqual([401, "zt-session", "missing", "missing"]);
  });

  it("claims of rights change nothing", async () => {
    const token = signed({ z_ia: true, z_cae: true, z_cfs: null, scopes: ["admin"] });
    expect((await c.call("GET", "/edge/management/v1/identities", bearer(token))).status).toBe(401);
  });
});

describe("401 by what happened since, from the next request on:", () => {
  it.each<[string, (one: User, client: OidcClient) => Promise<unknown>]>([
    ["an administrator ended the session", (_, { id }) => c.admin("DELETE", `/api-sessions/${id}`)],
    ["the token was revoked", (_, { jti }) => c.model.revocations.create({ id: jti, type: "JTI" })],
    ["the identity was disabled", ({ id }) => c.admin("POST", `/identities/${id}/disable`, { durationMinutes: 5 })],
    ["the identity was deleted", ({ id }) => c.admin("DELETE", `/identities/${id}`)],
    ["its authenticator was deleted", ({ authenticatorId }) => c.admin("DELETE", `/authenticators/${authenticatorId}`)],
    [
      "its password was changed",
      ({ authenticatorId }) => c.admin("PATCH", `/authenticators/${authenticatorId}`, { password: "another one" }),
    ],
  ])("%s", async (_, happen) => {
    const one = await user();
    const client = await loginByOidc(c, one);
    expect((await ask(client.accessToken)).status).toBe(200);
    await happen(one, client);
    expect(outcome(await ask(client.accessToken))).toEqual(INVALID);
  });

  it("the session's time is over, though the token's is not", async () => {
    const id = await beginOidcLogin(c, await user());
    const access = c.ctx.tokens.issuer.access(await tokenSubject(c, id));
    expect(outcome(await ask(access.token))).toEqual(INVALID);
    const accessUntil = access.expiresAt;
    const expiresAt = new Date(Date.now() + 60_000);
    await c.model.oidcSessions.activate(id, { refreshJti: null, accessUntil, expiresAt });
    expect((await ask(access.token)).status).toBe(200);
    c.clock.offsetMs = 61_000;
    expect(outcome(await ask(access.token))).toEqual(INVALID);
  });

  it("a login under way ends with the credential that began it", async () => {
    const one = await user();
    const id = await beginOidcLogin(c, one);
    await c.admin("DELETE", `/authenticators/${one.authenticatorId}`);
    await expect(c.authentication.finish(id, [])).rejects.toMatchObject({ status: 401 });
    await expect(finishOidcLogin(c, id)).rejects.toThrow("has ended");
  });
});

describe("a token of a session that began with a certificate", () => {
  interface Holder {
    readonly cert: string;
    readonly key: string;
    readonly id: string;
  }
  async function holder(more: object = {}): Promise<Holder & { readonly client: OidcClient }> {
    count += 1;
    const name = `holder-${count}`;
    const { keyPem: key } = await createKeyPair();
    const id = await c.make("identities", { name, type: "Device", isAdmin: false, enrollment: { ott: true }, ...more });
    const [{ token }] = (await c.admin("GET", `/identities/${id}/enrollments`)).json.data;
    const body = { clientCsr: await createCsr({ commonName: name, keyPem: key }) };
    const { cert } = (await c.call("POST", `/edge/client/v1/enroll?token=${token}`, { body })).json.data;
    return { id, key, cert, client: await loginByOidc(c, { certificate: new X509Certificate(cert) }) };
  }
  const over = ({ headers }: OidcClient, { cert, key }: { cert: string; key: string }, more: object = {}) =>
    get("/current-identity", { cert, key, headers: { ...headers, ...more } });

  it("counts only over a connection with that certificate as its leaf", async () => {
    const [ann, bob] = [await holder(), await holder()];
    expect((await over(ann.client, ann)).status).toBe(200);
    expect(outcome(await ask(ann.client.accessToken))).toEqual(INVALID);
    expect(outcome(await over(ann.client, bob))).toEqual(INVALID);
    expect(outcome(await over(ann.client, { key: bob.key, cert: bob.cert + ann.cert }))).toEqual(INVALID);
  });

  it("counts over one that the network issued for this session, and for no other", async () => {
    const [ann, bob] = [await holder(), await holder()];
    const { keyPem: key } = await createKeyPair();
    const csr = await createCsr({ commonName: "any", keyPem: key });
    const certificateOf = async (one: typeof ann) => {
      const path = "/edge/client/v1/current-api-session/certificates";
      const { cert, client } = one;
      const options = { cert, key: one.key, headers: client.headers, body: { csr } };
      return (await c.call("POST", path, options)).json.data.certificate as string;
    };
    expect((await over(ann.client, { key, cert: await certificateOf(ann) })).status).toBe(200);
    expect(outcome(await over(ann.client, { key, cert: await certificateOf(bob) }))).toEqual(INVALID);
  });

  it("a password login takes no notice of the certificate of its connection", async () => {
    const ann = await holder();
    const { headers } = await loginByOidc(c, await user());
    expect((await get("/current-identity", { headers, cert: ann.cert, key: ann.key })).status).toBe(200);
  });

  it("counts when an edge router vouches for that certificate, but for no administrator", async () => {
    const { keyPem: key } = await createKeyPair();
    const id = await c.make("edge-routers", { name: "vouching" });
    const { enrollmentToken: token } = (await c.admin("GET", `/edge-routers/${id}`)).json.data;
    const csr = await createCsr({ commonName: id, keyPem: key });
    const body = { certCsr: csr, serverCertCsr: csr };
    const enrolled = await c.call("POST", `/edge/client/v1/enroll?method=erott&token=${token}`, { body });
    const router = { key, cert: enrolled.json.data.cert };
    const [ann, bob, boss] = [await holder(), await holder(), await holder({ isAdmin: true })];
    const passedOn = ({ cert }: Holder) => ({
      [ProxiedRequestHeader.PassedOnAt]: new Date().toISOString(),
      [ProxiedRequestHeader.ClientCertificate]: new X509Certificate(cert).raw.toString("base64"),
    });
    expect((await over(ann.client, router, passedOn(ann))).status).toBe(200);
    expect(outcome(await over(ann.client, router, passedOn(bob)))).toEqual(INVALID);
    expect(outcome(await over(ann.client, bob, passedOn(ann)))).toEqual(INVALID);
    expect((await over(boss.client, boss)).status).toBe(200);
    expect(outcome(await over(boss.client, router, passedOn(boss)))).toEqual(INVALID);
  });
});

describe("open factors of a session with an access token", () => {
  it("a one-time code raises the session, so that the same token is full afterwards", async () => {
    const one = await user();
    const first = await loginByOidc(c, one);
    const mfa = (method: string, path: string, headers: object, body?: object) =>
      c.call(method, `/edge/client/v1${path}`, { headers: { ...headers }, ...(body && { body }) });
    await mfa("POST", "/current-identity/mfa", first.headers);
    const { provisioningUrl } = (await mfa("GET", "/current-identity/mfa", first.headers)).json.data;
    const code = totpCode(new URL(provisioningUrl).searchParams.get("secret") ?? "", new Date());
    expect((await mfa("POST", "/current-identity/mfa/verify", first.headers, { code })).status).toBe(200);

    const id = await beginOidcLogin(c, one);
    expect(await c.authentication.finish(id, [])).toMatchObject({ totp: true });
    const second = await finishOidcLogin(c, id);
    const refused = await ask(second.accessToken);
    expect([refused.status, refused.headers["www-authenticate"]]).toEqual([401, undefined]);
    const { data } = (await get("/current-api-session", second)).json;
    expect(data.authQueries).toMatchObject([{ typeId: "MFA" }]);
    const announced = c.announced.length;
    expect((await mfa("POST", "/authenticate/mfa", second.headers, { code })).status).toBe(200);
    expect((await ask(second.accessToken)).status).toBe(200);
    expect(c.announced).toHaveLength(announced);
    expect((await tokenSubject(c, id)).session.amr).toEqual(["password", "totp"]);
  });

  it("the token of a required signer comes in a header of its own, with every request", async () => {
    const signer = {
      name: "second",
      issuer: idp.issuer,
      audience: "sallyport",
      enabled: true,
      jwksEndpoint: idp.jwksUrl,
    };
    const requireExtJwtSigner = await c.make("external-jwt-signers", signer);
    const authPolicyId = await c.make(
      "auth-policies",
      authPolicy("two tokens", { secondary: { requireExtJwtSigner } }),
    );
    const one = await user({ authPolicyId });
    const id = await beginOidcLogin(c, one);
    const external = await idp.token({ sub: one.id });
    expect(await c.authentication.finish(id, [])).toMatchObject({ token: true });
    expect(await c.authentication.finish(id, [external])).toMatchObject({ token: false });
    const { accessToken } = await finishOidcLogin(c, id);
    expect((await ask(accessToken)).status).toBe(401);
    expect((await ask(accessToken, external)).status).toBe(200);
    expect((await ask(external, accessToken)).status).toBe(200);
    const others = await Promise.all([1, 2, 3].map((n) => idp.token({ sub: `other ${n}` })));
    expect((await ask(...others, accessToken, external)).status).toBe(200);
  });
});

it("guessing tokens is limited like logins, and who has guessed too often costs no check", async () => {
  const rate = { burst: 5, perMinute: 5 };
  const rateLimits = { enabled: true, address: rate, failures: rate };
  const limited = new Authentication(c.ctx, c.model, { ...CONTROLLER_DEFAULTS.auth, rateLimits });
  const at = (token: string, remoteIp = "192.0.2.9") =>
    limited.sessionOfBearer({ bearerTokens: [token], peerCertificates: [], remoteIp });
  const { id, accessToken: known } = await loginByOidc(c, await user());
  const { accessToken: fresh } = await loginByOidc(c, await user());
  const subject = await tokenSubject(c, id);
  const before = new Date(subject.at.getTime() - 2 * c.ctx.settings.oidc.accessMs);
  const { token: ended } = c.ctx.tokens.issuer.access({ ...subject, at: before });
  expect(await at(known)).toMatchObject({ kind: "oidc" });
  // What this network has signed is no guess, at its first use after a start neither.
  for (let i = 0; i < 10; i++) expect(await at(ended)).toMatchObject({ refused: "expired" });
  const spoilt = `${known.slice(0, -4)}AAAA`;
  for (let i = 0; i < 5; i++) expect(await at(spoilt)).toMatchObject({ refused: "invalid" });
  const verify = vi.spyOn(crypto.subtle, "verify");
  for (const token of [spoilt, fresh]) await expect(at(token)).rejects.toMatchObject({ status: 429 });
  expect(await at(known)).toMatchObject({ kind: "oidc" });
  expect(verify).not.toHaveBeenCalled();
  expect(await at(fresh, "192.0.2.10")).toMatchObject({ kind: "oidc" });
  expect(verify).toHaveBeenCalledTimes(1);
  verify.mockRestore();
});
