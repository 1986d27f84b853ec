import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { totpCode } from "../../model/identity/one-time-codes.ts";
import { loginByOidc } from "../testing/oidc-client.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
let count = 0;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

async function user() {
  count += 1;
  const username = `user-${count}`;
  const password = "correct horse";
  const id = await c.make("identities", { name: username, type: "User", isAdmin: false });
  const authenticatorId = await c.make("authenticators", { identityId: id, method: "updb", username, password });
  return { id, username, password, authenticatorId };
}

const isTaken = async (headers: Record<string, string | string[]>) =>
  (await c.call("GET", "/edge/client/v1/current-identity", { headers })).status === 200;

describe("a revocation", () => {
  test("of a token refuses that token, and no other of its session", async () => {
    const { headers, accessToken } = await loginByOidc(c, await user());
    const { jti } = JSON.parse(Buffer.from(accessToken.split(".")[1]!, "base64url").toString());
    expect(await isTaken(headers)).toBe(true);
    expect(await c.make("revocations", { id: jti, type: "JTI", tags: { why: "lost" } })).toBe(jti);
    expect(await isTaken(headers)).toBe(false);
    const { data } = (await c.admin("GET", `/revocations/${jti}`)).json;
    expect(data).toMatchObject({
      id: jti,
      type: "JTI",
      tags: { why: "lost" },
      _links: { self: { href: `./revocations/${jti}` } },
    });
    expect(Date.parse(data.expiresAt)).toBeGreaterThan(Date.now());
  });

  test("of an API session ends it", async () => {
    const one = await user();
    const [ended, other] = [await loginByOidc(c, one), await loginByOidc(c, one)];
    await c.make("revocations", { id: ended.id, type: "API_SESSION" });
    expect([await isTaken(ended.headers), await isTaken(other.headers)]).toEqual([false, true]);
    expect((await c.admin("GET", `/api-sessions/${ended.id}`)).status).toBe(404);
  });

  test("of an identity ends its sessions by OIDC, and takes no later login", async () => {
    const one = await user();
    const before = await loginByOidc(c, one);
    await c.make("revocations", { id: one.id, type: "IDENTITY" });
    expect(await isTaken(before.headers)).toBe(false);
    expect(await isTaken((await loginByOidc(c, one)).headers)).toBe(true);
    const { json } = await c.admin(
      "GET",
      `/revocations?filter=${encodeURIComponent(`id = "${one.id}" and type = "IDENTITY"`)}`,
    );
    expect(json.data).toHaveLength(1);
    expect((await c.admin("GET", "/summary")).json.data.revocations).toBeGreaterThan(0);
  });

  test.each([
    [400, { id: "no uuid", type: "JTI" }],
    [400, { id: "no uuid", type: "API_SESSION" }],
    [404, { id: "nobody", type: "IDENTITY" }],
    [400, { id: randomUUID(), type: "ALL" }],
    [400, { type: "JTI" }],
    [400, { id: randomUUID() }],
  ])("is refused with %d: %j", async (status, body) => {
    const answer = await c.admin("POST", "/revocations", body);
    expect(answer.status).toBe(status);
    expect((await c.admin("GET", "/revocations/none")).status).toBe(404);
  });
});

describe("a token for one-time codes", () => {
  const ask = (code: string, options: { token?: string; headers?: Record<string, string | string[]> }) =>
    c.call("POST", "/edge/client/v1/current-api-session/totp-token", { ...options, body: { code } });

  test("is given for a code to the session of an access token, and for nothing else", async () => {
    const one = await user();
    const { headers, id } = await loginByOidc(c, one);
    expect((await ask("123456", { headers })).json.error.code).toBe("MFA_NOT_ENROLLED");
    await c.call("POST", "/edge/client/v1/current-identity/mfa", { headers });
    const { json } = await c.call("GET", "/edge/client/v1/current-identity/mfa", { headers });
    const secret = new URL(json.data.provisioningUrl).searchParams.get("secret") ?? "";
    const code = () => totpCode(secret, c.ctx.now());
    await c.call("POST", "/edge/client/v1/current-identity/mfa/verify", { headers, body: { code: code() } });
    expect((await ask("wrong!", { headers })).json.error.code).toBe("MFA_INVALID_TOKEN");
    expect((await ask(json.data.recoveryCodes[0], { headers })).json.error.code).toBe("MFA_INVALID_TOKEN");

    const answer = await ask(code(), { headers });
    expect(answer.status, answer.text).toBe(200);
    const claims = JSON.parse(Buffer.from(answer.json.data.token.split(".")[1], "base64url").toString());
    expect(claims).toMatchObject({ z_t: "t", sub: one.id, z_asid: id });
    expect(Date.parse(answer.json.data.issuedAt)).toBe(claims.iat * 1_000);

    const token = await c.login("admin", "admin");
    expect((await ask(code(), { token })).json.error.code).toBe("INVALID_BACKING_TOKEN_TYPE");
  });
});
