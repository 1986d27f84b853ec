/** Rules from advisories and fixes of OpenZiti that concern logins by OIDC, each enforced by a test named by its number (docs/security.md). */
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { createCsr, createKeyPair } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { authPolicy } from "../api/testing/auth-policy.ts";
import {
  type Answer,
  type CallOptions,
  startTestController,
  type TestController,
} from "../api/testing/test-controller.ts";
import { startTokenIssuer, type TokenIssuer } from "../auth/testing/token-issuer.ts";
import { DenialCode } from "../fabric/ports.ts";
import { FORM_TYPE } from "../http/endpoints.ts";
import { totpCode } from "../model/identity/one-time-codes.ts";
import {
  callbackIn,
  claimsOf,
  encodedFields,
  logIn,
  makeUser,
  OidcFlow,
  postForm,
  REDIRECT_URI,
  TEST_PASSWORD,
} from "./testing/oidc-flow.ts";

const CLIENT = "/edge/client/v1";
const EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange";
const kindOfToken = (kind: string) => `urn:ietf:params:oauth:token-type:${kind}`;

let c: TestController;
let idp: TokenIssuer;
let count = 0;
beforeAll(async () => {
  idp = await startTokenIssuer();
  await idp.addKey("k1");
  c = await startTestController({ auth: CONTROLLER_DEFAULTS.auth });
});
afterAll(async () => {
  await c.close();
  await idp.close();
});
beforeEach(() => {
  c.clock.offsetMs = 0;
  count += 1;
});

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
const ask = (token: string, options: CallOptions = {}) =>
  c.call("GET", `${CLIENT}/current-identity`, { ...options, ...bearer(token) });
const errorOf = ({ status, json }: Answer) => [status, json?.error];

/** An identity that has enrolled with a certificate. */
async function holder(): Promise<{ readonly id: string; readonly cert: string; readonly key: string }> {
  const { keyPem: key } = await createKeyPair();
  const name = `holder-${count}-${Math.random()}`;
  const id = await c.make("identities", { name, type: "Device", isAdmin: false, enrollment: { ott: true } });
  const [{ token }] = (await c.admin("GET", `/identities/${id}/enrollments`)).json.data;
  const body = { clientCsr: await createCsr({ commonName: name, keyPem: key }) };
  const { cert } = (await c.call("POST", `${CLIENT}/enroll?token=${token}`, { body })).json.data;
  return { id, key, cert };
}

/** A login with the certificate of the connection. */
async function logInWith(options: CallOptions): Promise<Answer> {
  const flow = new OidcFlow(c, { options });
  return postForm(c, "/oidc/login/cert", [["id", await flow.begin()]], options);
}

describe("certificates", () => {
  it("GHSA-mrpr-756c-xm47: only the leaf of a connection proves who it is (also GHSA-cc5m-7mhm-xh9f)", async () => {
    const [ann, bob] = [await holder(), await holder()];
    const stranger = await (await TestAuthority.create()).issue({ commonName: "stranger" });
    expect((await logInWith(ann)).status).toBe(302);
    expect((await logInWith({ cert: stranger.certPem + ann.cert, key: stranger.keyPem })).status).toBe(401);
    const flow = new OidcFlow(c, { options: { cert: bob.cert + ann.cert, key: bob.key } });
    const { access_token } = await flow.tokens(
      callbackIn(await postForm(c, "/oidc/login/cert", [["id", await flow.begin()]], flow.options)),
    );
    expect(claimsOf(access_token).sub).toBe(bob.id);
  });

  it("#3734: a bound token needs its certificate at the APIs, and at the token endpoint", async () => {
    const [ann, bob] = [await holder(), await holder()];
    const flow = new OidcFlow(c, { options: ann });
    const { access_token, refresh_token } = await flow.tokens(
      callbackIn(await postForm(c, "/oidc/login/cert", [["id", await flow.begin()]], ann)),
    );
    expect((await ask(access_token, ann)).status).toBe(200);
    for (const options of [{}, bob, { cert: bob.cert + ann.cert, key: bob.key }]) {
      expect((await ask(access_token, options)).status).toBe(401);
      const refreshed = await postForm(c, "/oidc/oauth/token", flow.refreshFields(refresh_token), options);
      expect(errorOf(refreshed)).toEqual([400, "access_denied"]);
    }
  });

  it("#3846: a certificate that was not the credential binds nothing", async () => {
    const { username } = await makeUser(c);
    const { access_token } = await logIn(c, username, new OidcFlow(c, { options: await holder() }));
    expect(claimsOf(access_token).z_cfs ?? []).toEqual([]);
    expect((await ask(access_token)).status).toBe(200);
  });

  it("GHSA-6v5r-p2wr-q492: certificates of a session are shown to that session only (also #3855)", async () => {
    const { username } = await makeUser(c);
    const [own, other] = [await logIn(c, username), await logIn(c, username)];
    const path = `${CLIENT}/current-api-session/certificates`;
    const { keyPem } = await createKeyPair();
    const body = { csr: await createCsr({ commonName: "any", keyPem }) };
    const { id } = (await c.call("POST", path, { ...bearer(own.access_token), body })).json.data;
    const seen = async (token: string) =>
      (await c.call("GET", path, bearer(token))).json.data.map((each: { id: string }) => each.id);
    expect([await seen(own.access_token), await seen(other.access_token)]).toEqual([[id], []]);
    for (const method of ["GET", "DELETE"]) {
      expect((await c.call(method, `${path}/${id}`, bearer(other.access_token))).status).toBe(404);
    }
    expect((await c.call("GET", `${path}/${id}`, bearer(own.access_token))).status).toBe(200);
  });

  it("#3231: one key signs, and it is published, whatever certificate the port serves", async () => {
    const { username } = await makeUser(c);
    const header = (token: string) => JSON.parse(Buffer.from(token.split(".")[0]!, "base64url").toString());
    const before = header((await logIn(c, username)).access_token);
    const [key] = c.ctx.tokens.keys.published();
    expect(before.kid).toBe(key!.certificate.fingerprint.replaceAll(":", "").toLowerCase());
    const { keys } = (await c.call("GET", "/oidc/keys")).json;
    expect(keys.find(({ kid }: { kid: string }) => kid === before.kid)).toMatchObject({ use: "sig", alg: before.alg });
  });
});

describe("requests", () => {
  it("GHSA-q8g9-jc4c-jp6q: a body beyond the limit is refused before it is read, without a login (also GHSA-j952-6x8x-jmj6)", async () => {
    for (const path of ["/oidc/oauth/token", "/oidc/login/password", "/oidc/authorize", "/oidc/revoke"]) {
      const headers = { "content-type": FORM_TYPE };
      expect((await c.call("POST", path, { headers, body: "x".repeat(1_100_000) })).status).toBe(413);
    }
  });

  it("#3788: the token endpoint answers malformed input with the error of the standard (also #3575)", async () => {
    const post = (body: string, type = FORM_TYPE) =>
      c.call("POST", "/oidc/oauth/token", { body, headers: { "content-type": type } });
    expect(errorOf(await post(""))).toEqual([400, "invalid_request"]);
    expect(errorOf(await post("{}", "application/json"))).toEqual([400, "invalid_request"]);
    expect(errorOf(await post("grant_type=password&client_id=openziti"))).toEqual([400, "unsupported_grant_type"]);
    for (const token of ["", "a.b", "a.b.c", "..", "ey.ey.ey", "\u0000"]) {
      const fields = new OidcFlow(c).refreshFields(token);
      expect(errorOf(await postForm(c, "/oidc/oauth/token", fields))[0]).toBe(400);
    }
    for (const authorization of ["Basic", "Basic %", "Basic b3Blbnppdmk6", "Basic b3Blbnppdmk6eA=="]) {
      const fields = [["grant_type", "refresh_token"]] as const;
      const answer = await postForm(c, "/oidc/oauth/token", fields, { headers: { authorization } });
      expect(answer.json.error, authorization).toBe("invalid_client");
    }
  });

  it("#3349: an error of a login has the content type that was asked for", async () => {
    const fields = new OidcFlow(c).passwordFields("unknown", "nobody");
    const answer = (accept: string) => postForm(c, "/oidc/login/password", fields, { headers: { accept } });
    expect([(await answer("application/json")).status, (await answer("application/json")).json.code]).toEqual([
      401,
      "UNAUTHORIZED",
    ]);
    const page = await answer("text/html");
    expect([page.status, page.headers["content-type"]]).toEqual([401, "text/html; charset=utf-8"]);
  });

  it("#2689: the id of a form login may be in the query, and another media type is 415 (also #2659)", async () => {
    const { username } = await makeUser(c);
    const flow = new OidcFlow(c);
    for (const name of ["authRequestID", "id"]) {
      const [, ...fields] = flow.passwordFields("", username);
      const path = `/oidc/login/password?${name}=${await flow.begin()}`;
      expect((await postForm(c, path, fields)).status).toBe(302);
    }
    const headers = { "content-type": "text/xml" };
    const answer = await c.call("POST", "/oidc/login/password", { headers, body: "<id/>" });
    expect([answer.status, answer.json.code]).toEqual([415, "UNSUPPORTED_MEDIA_TYPE"]);
  });

  it("#3696: the issuer follows a known host, in one form, and no other host (also #2737, #2674)", async () => {
    const issuer = async (host: string) =>
      (await c.call("GET", "/oidc/.well-known/openid-configuration", { headers: { host } })).json?.issuer;
    expect(await issuer("localhost")).toBe("https://localhost/oidc");
    expect(await issuer("LOCALHOST:443")).toBe("https://localhost/oidc");
    expect(await issuer(`localhost:${c.port}`)).toBe(`https://localhost:${c.port}/oidc`);
    for (const host of ["*", "*.localhost", "evil.example", "localhost.evil.example", "localhost@evil.example"]) {
      expect(await issuer(host), host).toBeUndefined();
    }
  });
});

describe("factors", () => {
  it("#3193: the query says whether codes are enrolled, and an enrollment within the login counts (also #3496)", async () => {
    const authPolicyId = await c.make(
      "auth-policies",
      authPolicy(`codes-${count}`, { secondary: { requireTotp: true } }),
    );
    const { username } = await makeUser(c, { authPolicyId });
    const flow = new OidcFlow(c);
    const id = await flow.begin();
    const first = await postForm(c, "/oidc/login/password", flow.passwordFields(id, username));
    expect([first.status, first.headers["totp-required"]]).toEqual([200, "true"]);
    expect(first.json.authQueries).toMatchObject([{ typeId: "TOTP" }]);
    expect(first.json.authQueries[0]).not.toHaveProperty("isTotpEnrolled");
    const begun = await postForm(c, "/oidc/login/totp/enroll", [["id", id]]);
    expect(begun.status).toBe(201);
    const code = totpCode(new URL(begun.json.provisioningUrl).searchParams.get("secret") ?? "", new Date());
    const verified = await postForm(c, "/oidc/login/totp/enroll/verify", [
      ["id", id],
      ["code", code],
    ]);
    const { access_token } = await flow.tokens(callbackIn(verified));
    expect(claimsOf(access_token).amr).toEqual(["password", "totp"]);
    expect((await ask(access_token)).status).toBe(200);

    const again = await postForm(c, "/oidc/login/password", flow.passwordFields(await flow.begin(), username));
    expect(again.json.authQueries).toMatchObject([{ typeId: "TOTP", isTotpEnrolled: true }]);
  });

  it("GHSA-whjr-3j94-gw3c: keys of an external signer are not fetched from a private address", async () => {
    const name = `inside-${count}`;
    const signer = { name, issuer: idp.issuer, audience: "sallyport", enabled: true, jwksEndpoint: idp.jwksUrl };
    const signerId = await c.make("external-jwt-signers", signer);
    const { id } = await makeUser(c);
    const flow = new OidcFlow(c);
    const headers = { authorization: `Bearer ${await idp.token({ sub: id })}` };
    const answer = await postForm(c, "/oidc/login/ext-jwt", [["id", await flow.begin()]], { headers });
    expect([answer.status, idp.requests]).toEqual([401, []]);
    await c.admin("DELETE", `/external-jwt-signers/${signerId}`);
  });

  it("GHSA-354c-gpg9-j988: a posture check of one-time codes does without reports of wake-ups and unlocks", async () => {
    const { username } = await makeUser(c);
    await c.make("services", { name: `s-${count}`, encryptionRequired: false, roleAttributes: [`s-${count}`] });
    const check = {
      name: `m-${count}`,
      typeId: "MFA",
      promptOnWake: true,
      promptOnUnlock: true,
      timeoutSeconds: -1,
      roleAttributes: [`m-${count}`],
    };
    await c.make("posture-checks", check);
    const roles = { identityRoles: ["#all"], serviceRoles: [`#s-${count}`], postureCheckRoles: [`#m-${count}`] };
    await c.make("service-policies", { name: `p-${count}`, type: "Dial", semantic: "AnyOf", ...roles });
    const { access_token } = await logIn(c, username);
    const answer = await c.call("GET", `${CLIENT}/services`, bearer(access_token));
    expect([answer.status, answer.json.data[0].postureQueries[0].isPassing]).toEqual([200, false]);
  });
});

describe("sessions and their tokens", () => {
  it("#3059: refresh and exchange keep the session, its factors and its scopes (also #2460, #1960)", async () => {
    const { username } = await makeUser(c);
    const flow = new OidcFlow(c);
    const first = await logIn(c, username, flow);
    const kept = (token: string) => {
      const { z_asid, amr, scopes, auth_time } = claimsOf(token);
      return { z_asid, amr, scopes, auth_time };
    };
    const refreshed = await flow.token(flow.refreshFields(first.refresh_token));
    expect(kept(refreshed.json.access_token)).toEqual(kept(first.access_token));
    const exchanged = await flow.token([
      ["grant_type", EXCHANGE],
      ["client_id", "openziti"],
      ["subject_token", refreshed.json.refresh_token],
      ["subject_token_type", kindOfToken("refresh_token")],
    ]);
    expect(kept(exchanged.json.access_token)).toEqual(kept(first.access_token));
    expect((await ask(exchanged.json.access_token)).status).toBe(200);
  });

  it("#3245: revoking an identity ends the tokens it has, and not those of a login right after", async () => {
    const { id, username } = await makeUser(c);
    const before = await logIn(c, username);
    await c.model.revocations.create({ id, type: "IDENTITY" });
    expect((await ask(before.access_token)).status).toBe(401);
    const after = await logIn(c, username);
    expect((await ask(after.access_token)).status).toBe(200);
    const { issued_before } = await c.model.revocations.get(id);
    expect(claimsOf(after.access_token).iat * 1_000).toBeGreaterThanOrEqual(issued_before!.getTime());
  });

  it("a disabled identity and a revoked session refresh nothing", async () => {
    const { id, username } = await makeUser(c);
    const flow = new OidcFlow(c);
    const first = await logIn(c, username, flow);
    await c.admin("POST", `/identities/${id}/disable`, { durationMinutes: 5 });
    expect(errorOf(await flow.token(flow.refreshFields(first.refresh_token)))).toEqual([400, "invalid_grant"]);
    const second = await makeUser(c);
    const tokens = await logIn(c, second.username, flow);
    await c.model.revocations.create({ id: claimsOf(tokens.access_token).z_asid, type: "API_SESSION" });
    expect(errorOf(await flow.token(flow.refreshFields(tokens.refresh_token)))).toEqual([400, "invalid_grant"]);
  });

  it("#3673: revocations leave when their tokens have ended (also #3681, #3760, #3764)", async () => {
    const { username } = await makeUser(c);
    const { access_token } = await logIn(c, username);
    const revoked = await postForm(c, "/oidc/revoke", [
      ["client_id", "openziti"],
      ["token", access_token],
    ]);
    const { jti } = claimsOf(access_token);
    expect([revoked.status, (await c.model.revocations.get(jti)).type]).toEqual([200, "JTI"]);
    c.clock.offsetMs = c.ctx.settings.oidc.accessMs + 120_000;
    await c.model.revocations.sweep(new AbortController().signal);
    await expect(c.model.revocations.get(jti)).rejects.toMatchObject({ status: 404 });
  });

  it("#2999: what the session says of its authenticator is the row's (also #2997)", async () => {
    const { username } = await makeUser(c);
    const { access_token } = await logIn(c, username);
    const { data } = (await c.call("GET", `${CLIENT}/current-api-session`, bearer(access_token))).json;
    const { rows } = await sql<{ authenticator_id: string }>`
      SELECT authenticator_id FROM api_session WHERE id = ${claimsOf(access_token).z_asid}`.execute(c.ctx.store.db);
    expect([data.authenticatorId, claimsOf(access_token).z_authid]).toEqual([
      rows[0]!.authenticator_id,
      rows[0]!.authenticator_id,
    ]);
  });

  it("#1971: names of config types become ids", async () => {
    const { username } = await makeUser(c);
    const name = `shape-${count}`;
    const configType = await c.make("config-types", { name, schema: { type: "object" } });
    const flow = new OidcFlow(c);
    const fields = flow
      .passwordFields(await flow.begin(), username)
      .map(([key, value]) => [key, key === "configTypes" ? name : value] as const);
    const { access_token } = await flow.tokens(callbackIn(await postForm(c, "/oidc/login/password", fields)));
    expect(claimsOf(access_token).z_ct).toEqual([configType]);
  });

  it("#2614: tokens live as long as the settings say", async () => {
    const { username } = await makeUser(c);
    const answer = await logIn(c, username);
    const life = (token: string) => (claimsOf(token).exp - claimsOf(token).iat) * 1_000;
    const { accessMs, idMs, refreshMs } = c.ctx.settings.oidc;
    expect([life(answer.access_token), life(answer.id_token), life(answer.refresh_token)]).toEqual([
      accessMs,
      idMs,
      refreshMs,
    ]);
  });
});

describe("service tokens and dials", () => {
  interface Dialler {
    readonly token: string;
    readonly session: { readonly id: string; readonly token: string };
  }
  let router = "";
  let service = "";
  beforeAll(async () => {
    router = await c.make("edge-routers", { name: "r" });
    const versionInfo = { version: "v1", revision: "", buildDate: "", os: "", arch: "" };
    const supportedProtocols = { tls: "tls://localhost:1" };
    c.online.set(router, { isOnline: true, hostname: "r", supportedProtocols, syncStatus: "SYNC_DONE", versionInfo });
    service = await c.make("services", { name: "dialled", encryptionRequired: false, roleAttributes: ["dialled"] });
    const roles = { semantic: "AnyOf", identityRoles: ["#all"], serviceRoles: ["#dialled"], edgeRouterRoles: ["#all"] };
    await c.make("edge-router-policies", { name: "all", ...roles });
    await c.make("service-edge-router-policies", { name: "all", ...roles });
    await c.make("service-policies", { name: "dialled", type: "Dial", ...roles });
  });

  const dialler = async (): Promise<Dialler> => {
    const { access_token: token } = await logIn(c, (await makeUser(c)).username);
    const answer = await c.call("POST", `${CLIENT}/sessions`, {
      ...bearer(token),
      body: { serviceId: service, type: "Dial" },
    });
    return { token, session: answer.json.data };
  };
  const dial = (sessionToken: string, apiSessionToken: string) =>
    c.fabricModel.authorizeDial({ sessionToken, apiSessionToken, routerId: router, checksPosture: false });

  it("#4126: a service token has the id of the stored session, and asking again gives that session (also #4142, #4146)", async () => {
    const { token, session } = await dialler();
    expect(claimsOf(session.token)).toMatchObject({
      jti: session.id,
      z_t: "s",
      z_st: "Dial",
      sub: service,
      z_leg: false,
    });
    const again = await c.call("POST", `${CLIENT}/sessions`, {
      ...bearer(token),
      body: { serviceId: service, type: "Dial" },
    });
    expect(again.json.data.id).toBe(session.id);
    expect(await dial("not.a.token", token)).toMatchObject({ denied: DenialCode.InvalidSession });
  });

  it("#3569: sessions of logins that are not by OIDC have signed service tokens, too", async () => {
    const { username } = await makeUser(c);
    const token = await c.login(username, TEST_PASSWORD);
    const answer = await c.call("POST", `${CLIENT}/sessions`, { token, body: { serviceId: service, type: "Dial" } });
    expect(claimsOf(answer.json.data.token)).toMatchObject({ jti: answer.json.data.id, z_leg: true });
  });

  it("GHSA-7868-235p-7497: a dial is its token's: another session's, an ended or a missing one dials nothing", async () => {
    const [ann, bob] = [await dialler(), await dialler()];
    const denied = (answer: object) => ("denied" in answer ? answer.denied : undefined);
    expect(denied(await dial(ann.session.token, ann.token))).toBeUndefined();
    expect(denied(await dial(ann.session.token, bob.token))).toBe(DenialCode.InvalidApiSession);
    expect(denied(await dial(ann.session.token, ""))).toBe(DenialCode.InvalidApiSession);
    await postForm(c, "/oidc/revoke", [
      ["client_id", "openziti"],
      ["token", ann.token],
    ]);
    expect(denied(await dial(ann.session.token, ann.token))).toBe(DenialCode.InvalidApiSession);
  });
});

it("login links: who only knows the id of a login that another one finishes never gets its code", async () => {
  const { username } = await makeUser(c);
  const attacker = new OidcFlow(c);
  const id = await attacker.begin();
  const headers = { accept: "text/html" };
  const page = await c.call("GET", `/oidc/login/password?authRequestID=${id}`, { headers });
  expect(page.status).toBe(200);
  const finished = callbackIn(
    await postForm(c, "/oidc/login/password", attacker.passwordFields(id, username), { headers }),
  );
  expect(finished).not.toBe(id);
  const answer = await c.call("GET", `/oidc/authorize/callback?${encodedFields([["id", id]])}`);
  const location = String(answer.headers.location ?? "");
  expect([answer.status >= 300, location.includes("code=")]).toEqual([true, false]);
  if (answer.status === 302) expect(location.startsWith(REDIRECT_URI)).toBe(true);
});
