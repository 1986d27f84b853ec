/** Two controllers on one database: what one of them did, the other one knows with its next request. */
import { decodeProtectedHeader } from "jose";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { authPolicy } from "../api/testing/auth-policy.ts";
import { type Answer, startTestController, type TestController } from "../api/testing/test-controller.ts";
import { PUBLISH_MS } from "../auth/tokens/token-keys.ts";
import { claimsOf, locationOf, OidcTestClient, passwordIdentity, redirected } from "./testing/oidc-client.ts";

const HOUR_MS = 3_600_000;

let one: TestController;
let other: TestController;
let atOne: OidcTestClient;
let atOther: OidcTestClient;
let anna: string;
let authenticator: string;
beforeAll(async () => {
  one = await startTestController();
  other = await startTestController({ beside: one });
  atOne = new OidcTestClient(one);
  atOther = new OidcTestClient(other);
  anna = await passwordIdentity(one, "anna");
  const [own] = (await one.admin("GET", `/authenticators?filter=identity="${anna}"`)).json.data;
  authenticator = own.id;
});
afterAll(async () => {
  await other.close();
  await one.close();
});
afterEach(() => {
  one.clock.offsetMs = 0;
});

interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string;
}

const credentials = { username: "anna", password: "password" };
const logIn = async (): Promise<Tokens> => (await atOne.logIn("password", credentials)).json;
/** What each controller answers to a request with the token, the one that was not at work first. */
const seen = async (token: string) => [(await atOther.api(token)).status, (await atOne.api(token)).status];
const refusal = ({ status, json }: Answer) => [status, json.error];

/** The code of a login whose steps both controllers answer in turns. */
async function codeOfBoth(): Promise<string> {
  const id = await atOne.begin();
  return atOne.codeOf(await atOther.call("POST", "/oidc/login/password", { body: { id, ...credentials } }));
}
const withCode = (client: OidcTestClient, code: string) => client.exchange(code, { code_verifier: atOne.verifier });

describe("a login", () => {
  test("that one controller begins goes on at the other in every step, and so does its session", async () => {
    const first = await withCode(atOther, await codeOfBoth());
    expect(first.status).toBe(200);
    expect(await seen(first.json.access_token)).toEqual([200, 200]);
    one.clock.offsetMs = HOUR_MS;
    expect(await seen(first.json.access_token)).toEqual([401, 401]);
    const second = await atOne.refresh(first.json.refresh_token);
    const third = await atOther.refresh(second.json.refresh_token);
    expect(await seen(third.json.access_token)).toEqual([200, 200]);
    const sessions = [first, second, third].map(({ json }) => claimsOf(json.access_token).z_asid);
    expect(new Set(sessions).size).toBe(1);
    const { port } = other;
    expect(claimsOf(third.json.access_token).iss).toBe(`https://localhost:${port}/oidc`);
  });

  test("gives its code to one of them alone, and a code that comes again ends its session", async () => {
    const code = await codeOfBoth();
    const answers = await Promise.all([withCode(atOne, code), withCode(atOther, code)]);
    const good = answers.filter(({ status }) => status === 200);
    expect(good.length).toBeLessThanOrEqual(1);
    expect(answers.filter((answer) => answer.json.error === "invalid_grant")).toHaveLength(2 - good.length);
    for (const { json } of good) expect(await seen(json.access_token)).toEqual([401, 401]);
  });
});

describe("the callback of a login that one controller finished", () => {
  const finish = async () => {
    const { pathname, search } = new URL(
      locationOf(
        await atOne.call("POST", "/oidc/login/password", { body: { id: await atOne.begin(), ...credentials } }),
      ),
    );
    const codeAt = async (client: OidcTestClient) => redirected(await client.get(pathname + search)).code ?? "";
    return codeAt;
  };
  const exchanged = async (client: OidcTestClient, code: string) => refusal(await withCode(client, code));

  test("gives no second tokens once the other one has exchanged the code, and ends those of the first", async () => {
    const codeAt = await finish();
    const { json } = await withCode(atOther, await codeAt(atOther));
    expect(await seen(json.access_token)).toEqual([200, 200]);
    expect(await exchanged(atOne, await codeAt(atOne))).toEqual([400, "invalid_grant"]);
    expect(await seen(json.access_token)).toEqual([401, 401]);
  });

  test.each([
    ["disabled the identity", () => other.admin("POST", `/identities/${anna}/disable`, { durationMinutes: 5 })],
    ["revoked the identity", () => other.admin("POST", "/revocations", { id: anna, type: "IDENTITY" })],
    ["set another password", () => other.admin("PATCH", `/authenticators/${authenticator}`, { password: "password" })],
  ])("gives no tokens once the other one has %s", async (_what, withdraw) => {
    const codeAt = await finish();
    expect((await withdraw()).status).toBeLessThan(300);
    expect(await exchanged(atOne, await codeAt(atOne))).toEqual([400, "invalid_grant"]);
    await other.admin("POST", `/identities/${anna}/enable`);
  });

  test("gives tokens that prove one factor, once the other one has asked for a further one", async () => {
    const id = await passwordIdentity(one, "bert");
    const body = { id: await atOne.begin(), username: "bert", password: "password" };
    const finished = await atOne.call("POST", "/oidc/login/password", { body });
    const authPolicyId = await other.make("auth-policies", authPolicy("codes", { secondary: { requireTotp: true } }));
    expect((await other.admin("PATCH", `/identities/${id}`, { authPolicyId })).status).toBe(200);
    const { json } = await withCode(atOne, await atOne.codeOf(finished));
    const statuses = async (path: string) => (await atOne.api(json.access_token, path)).status;
    expect([await statuses("services"), await statuses("current-api-session")]).toEqual([401, 200]);
  });
});

describe("a refresh token", () => {
  test("that one controller replaced ends the session when it comes to the other", async () => {
    const first = await logIn();
    const second = (await atOne.refresh(first.refresh_token)).json;
    expect(refusal(await atOther.refresh(first.refresh_token))).toEqual([400, "invalid_grant"]);
    expect(refusal(await atOne.refresh(second.refresh_token))).toEqual([400, "invalid_grant"]);
    expect(await seen(second.access_token)).toEqual([401, 401]);
  });

  test("that comes to both at once is replaced once, and the session ends", async () => {
    const { refresh_token: token } = await logIn();
    const answers = await Promise.all([atOne.refresh(token), atOther.refresh(token)]);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 400]);
    const { access_token } = answers.find(({ status }) => status === 200)?.json ?? {};
    expect(await seen(access_token)).toEqual([401, 401]);
  });
});

describe("what one controller takes away counts at the other with the next request", () => {
  test("a token that is revoked, and a session that is", async () => {
    const { access_token, refresh_token } = await logIn();
    // Known to both, so that nothing but the revocation is new.
    expect(await seen(access_token)).toEqual([200, 200]);
    await atOne.form("/oidc/revoke", { client_id: "openziti", token: access_token });
    expect(await seen(access_token)).toEqual([401, 401]);
    const next = (await atOther.refresh(refresh_token)).json;
    expect(await seen(next.access_token)).toEqual([200, 200]);
    await atOne.form("/oidc/revoke", { client_id: "openziti", token: next.refresh_token });
    expect(await seen(next.access_token)).toEqual([401, 401]);
    expect(refusal(await atOther.refresh(next.refresh_token))).toEqual([400, "invalid_grant"]);
  });

  test("all sessions of an identity that is revoked or disabled, also for a login under way", async () => {
    const revoked = await logIn();
    expect(await seen(revoked.access_token)).toEqual([200, 200]);
    await one.admin("POST", "/revocations", { id: anna, type: "IDENTITY" });
    expect(await seen(revoked.access_token)).toEqual([401, 401]);
    const disabled = await logIn();
    expect(await seen(disabled.access_token)).toEqual([200, 200]);
    const code = await codeOfBoth();
    await one.admin("POST", `/identities/${anna}/disable`, { durationMinutes: 5 });
    expect(await seen(disabled.access_token)).toEqual([401, 401]);
    expect(refusal(await withCode(atOther, code))).toEqual([400, "invalid_grant"]);
    await one.admin("POST", `/identities/${anna}/enable`);
  });
});

describe("the key of tokens", () => {
  const kidOf = (token: string) => decodeProtectedHeader(token).kid;
  const publishedBy = async (client: OidcTestClient): Promise<string[]> =>
    (await client.get("/oidc/keys")).json.keys.map(({ kid }: { kid: string }) => kid);

  test("that one controller makes is published and used by both, and every session goes on", async () => {
    const before = await logIn();
    const { kid } = await one.ctx.tokens.keys.rotate({ atOnce: false });
    for (const client of [atOne, atOther]) await expect.poll(() => publishedBy(client)).toContain(kid);
    expect(kidOf((await atOther.refresh(before.refresh_token)).json.access_token)).not.toBe(kid);
    const kept = await logIn();
    one.clock.offsetMs = PUBLISH_MS;
    expect(await seen(kept.access_token)).toEqual([200, 200]);
    const after = (await atOther.refresh(kept.refresh_token)).json;
    expect([kidOf(kept.access_token) === kid, kidOf(after.access_token)]).toEqual([false, kid]);
    expect(await seen(after.access_token)).toEqual([200, 200]);
  });

  test("that one controller replaces at once signs nothing more that the other takes", async () => {
    const before = await logIn();
    expect(await seen(before.access_token)).toEqual([200, 200]);
    const { kid } = await one.ctx.tokens.keys.rotate({ atOnce: true });
    for (const client of [atOther, atOne]) {
      await expect.poll(() => publishedBy(client)).toEqual([kid]);
      expect((await client.api(before.access_token)).status).toBe(401);
      expect(refusal(await client.refresh(before.refresh_token))).toEqual([400, "invalid_grant"]);
    }
    expect(await seen((await logIn()).access_token)).toEqual([200, 200]);
  });
});

test("a controller that starts again knows the sessions of before, and what was revoked meanwhile", async () => {
  const [goesOn, ends] = [await logIn(), await logIn()];
  for (const { access_token } of [goesOn, ends]) expect(await seen(access_token)).toEqual([200, 200]);
  await other.close();
  await atOne.form("/oidc/revoke", { client_id: "openziti", token: ends.access_token });
  other = await startTestController({ beside: one });
  atOther = new OidcTestClient(other);
  expect(await seen(goesOn.access_token)).toEqual([200, 200]);
  expect(await seen(ends.access_token)).toEqual([401, 401]);
  expect((await atOther.refresh(ends.refresh_token)).status).toBe(200);
});
