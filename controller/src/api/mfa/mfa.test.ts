import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { totpCode } from "../../model/identity/one-time-codes.ts";
import { authPolicy } from "../testing/auth-policy.ts";
import { type CallOptions, startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

const PASSWORD = "correct horse";
const RECOVERY = /^[A-Z2-7]{6}$/;

interface User {
  readonly id: string;
  readonly name: string;
  login(): Promise<string>;
}

let count = 0;
async function user(more: object = {}): Promise<User> {
  count += 1;
  const name = `user${count}`;
  const id = await c.make("identities", { name, type: "User", isAdmin: false, ...more });
  await c.make("authenticators", { identityId: id, method: "updb", username: name, password: PASSWORD });
  return { id, name, login: () => c.login(name, PASSWORD) };
}

const at = (offsetSeconds = 0) => new Date(Date.now() + c.clock.offsetMs + offsetSeconds * 1000);

/** The code at an offset of seconds from now. */
const codeOf = (secret: string, offsetSeconds = 0) => totpCode(secret, at(offsetSeconds));

/** A code whose time comes in five minutes or later, and that is none of those around now by chance. */
function wrongCode(secret: string): string {
  const near = Array.from({ length: 9 }, (_, i) => codeOf(secret, (i - 4) * 30));
  for (let offsetSeconds = 300; ; offsetSeconds += 30) {
    const code = codeOf(secret, offsetSeconds);
    if (!near.includes(code)) return code;
  }
}

describe.each(["client", "management"] as const)("one-time codes in the %s API", (api) => {
  const call = (method: string, path: string, options?: CallOptions) =>
    c.call(method, `/edge/${api}/v1${path}`, options);
  const mfa = (method: string, token: string, path = "", options: CallOptions = {}) =>
    call(method, `/current-identity/mfa${path}`, { token, ...options });
  const authenticate = (token: string, code: string) => call("POST", "/authenticate/mfa", { token, body: { code } });

  /** Starts an enrollment; answers its secret. */
  const start = async (token: string) => {
    expect((await mfa("POST", token)).status).toBe(201);
    const { provisioningUrl } = (await mfa("GET", token)).json.data;
    return new URL(provisioningUrl).searchParams.get("secret") ?? "";
  };
  const enroll = async (token: string) => {
    const secret = await start(token);
    const codes: string[] = (await mfa("GET", token)).json.data.recoveryCodes;
    const verified = await mfa("POST", token, "/verify", { body: { code: codeOf(secret) } });
    expect([verified.status, verified.text]).toEqual([200, '{"data":{},"meta":{}}']);
    return { secret, codes };
  };

  it("are enrolled: started, shown, verified; the session that verified is complete", async () => {
    const { id, name, login } = await user();
    const token = await login();
    expect((await mfa("GET", token)).json.error).toMatchObject({ code: "NOT_FOUND" });
    expect((await mfa("GET", token, "/qr-code")).status).toBe(404);
    expect((await mfa("POST", token, "/verify", { body: { code: "123456" } })).json.error).toMatchObject({
      code: "MFA_ENROLLMENT_NOT_STARTED",
    });

    const started = await mfa("POST", token);
    expect(started.status).toBe(201);
    expect(started.json.data).toMatchObject({ _links: { self: { href: "./current-identity/mfa" } } });
    expect((await mfa("POST", token)).json.error).toMatchObject({ code: "MFA_EXISTS" });

    const pending = (await mfa("GET", token)).json.data;
    expect(pending).toMatchObject({
      id: started.json.data.id,
      isVerified: false,
      _links: {
        self: { href: "./current-identity/mfa" },
        "current-identity": { href: "./current-identity" },
        verify: { href: "./current-identity/mfa/verify" },
        qr: { href: "./current-identity/mfa/qr-code" },
      },
    });
    expect(pending.provisioningUrl).toMatch(
      new RegExp(`^otpauth://totp/test\\.example:${name}\\?issuer=test\\.example&secret=[A-Z2-7]{32}$`),
    );
    expect(pending.recoveryCodes).toHaveLength(20);
    for (const code of pending.recoveryCodes) expect(code).toMatch(RECOVERY);
    expect(new Set(pending.recoveryCodes).size).toBe(20);
    const secret = new URL(pending.provisioningUrl).searchParams.get("secret") ?? "";

    const session = async () => (await call("GET", "/current-api-session", { token })).json.data;
    expect(await session()).toMatchObject({ authQueries: [], isMfaRequired: false, isMfaComplete: false });
    const wrong = await mfa("POST", token, "/verify", { body: { code: wrongCode(secret) } });
    expect([wrong.status, wrong.json.error.code]).toEqual([400, "MFA_INVALID_TOKEN"]);
    const recovery = await mfa("POST", token, "/verify", { body: { code: pending.recoveryCodes[0] } });
    expect([recovery.status, recovery.json.error.code]).toEqual([400, "MFA_INVALID_TOKEN"]);

    expect((await mfa("POST", token, "/verify", { body: { code: codeOf(secret, -30) } })).status).toBe(200);
    expect(await session()).toMatchObject({ authQueries: [], isMfaRequired: true, isMfaComplete: true });
    expect(c.announced.at(-1)).toBe(token);
    const verified = (await mfa("GET", token)).json.data;
    expect(verified).toMatchObject({ isVerified: true, recoveryCodes: null });
    expect(verified).not.toHaveProperty("provisioningUrl");
    expect((await mfa("GET", token, "/qr-code")).status).toBe(404);
    expect((await mfa("POST", token, "/verify", { body: { code: codeOf(secret) } })).json.error).toMatchObject({
      code: "MFA_ENROLLMENT_NOT_STARTED",
    });
    expect((await c.admin("GET", `/identities/${id}`)).json.data.isMfaEnabled).toBe(true);
    expect((await c.admin("GET", "/summary")).json.data.mfas).toBeGreaterThan(0);
  });

  it.each(["short", "😀".repeat(3000)])("shows a PNG of 256 pixels with the provisioning URL", async (name) => {
    const { id, login } = await user();
    await c.admin("PATCH", `/identities/${id}`, { name: `${name} ${id}` });
    const token = await login();
    await start(token);
    const answer = await mfa("GET", token, "/qr-code", { headers: { accept: "*/*" } });
    expect([answer.status, answer.headers["content-type"]]).toEqual([200, "image/png"]);
    const png = answer.bytes;
    expect(png.subarray(0, 8).toString("hex")).toBe("89504e470d0a1a0a");
    expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([256, 256]);
  });

  it("are asked for in every other session: partial until a code is given, then whole and announced to routers", async () => {
    const { login } = await user();
    const first = await login();
    const other = await login();
    const { secret } = await enroll(first);
    const query = {
      typeId: "MFA",
      provider: "ziti",
      format: "alphaNumeric",
      minLength: 4,
      maxLength: 6,
      httpMethod: "POST",
      httpUrl: "./authenticate/mfa",
    };
    for (const token of [other, await login()]) {
      const session = (await call("GET", "/current-api-session", { token })).json.data;
      expect(session).toMatchObject({ authQueries: [query], isMfaRequired: true, isMfaComplete: false });
      expect((await call("GET", "/current-identity", { token })).status).toBe(401);
      expect((await mfa("DELETE", token)).status).toBe(401);
      expect((await mfa("GET", token, "/recovery-codes")).status).toBe(401);
    }
    const token = await login();
    expect(c.announced).not.toContain(token);
    const wrong = await authenticate(token, wrongCode(secret));
    expect([wrong.status, wrong.json.error.code]).toEqual([400, "MFA_INVALID_TOKEN"]);
    const right = await authenticate(token, codeOf(secret, 30));
    expect([right.status, right.text]).toEqual([200, '{"data":{},"meta":{}}']);
    expect(c.announced).toContain(token);
    expect((await call("GET", "/current-api-session", { token })).json.data).toMatchObject({
      authQueries: [],
      isMfaComplete: true,
    });
    expect((await call("GET", "/current-identity", { token })).status).toBe(200);
    expect((await c.call("GET", "/edge/client/v1/services", { token: first })).status).toBe(200);
  });

  it("accepts a code in the session that used it, and in no other one, nor an older one", async () => {
    const { login } = await user();
    const first = await login();
    const { secret } = await enroll(first);
    const [a, b] = [await login(), await login()];
    const code = codeOf(secret, 30);
    expect((await authenticate(a, code)).status).toBe(200);
    expect((await authenticate(a, code)).status).toBe(200);
    expect((await authenticate(b, code)).json.error.code).toBe("MFA_INVALID_TOKEN");
    expect((await authenticate(b, codeOf(secret))).json.error.code).toBe("MFA_INVALID_TOKEN");
    expect((await authenticate(b, codeOf(secret, 60))).status).toBe(200);
  });

  it("accepts the code that completed the enrollment once more, for a login", async () => {
    const { login } = await user();
    const verifying = await login();
    const secret = await start(verifying);
    const code = codeOf(secret);
    expect((await mfa("POST", verifying, "/verify", { body: { code } })).status).toBe(200);
    const view = { headers: { "mfa-validation-code": code } };
    expect((await mfa("GET", verifying, "/recovery-codes", view)).status).toBe(200);
    const [a, b] = [await login(), await login()];
    expect((await authenticate(a, code)).status).toBe(200);
    expect((await authenticate(b, code)).json.error.code).toBe("MFA_INVALID_TOKEN");
    expect((await authenticate(verifying, code)).json.error.code).toBe("MFA_INVALID_TOKEN");
  });

  it("does not accept it for a login after a newer code", async () => {
    const { login } = await user();
    const { secret } = await enroll(await login());
    const code = codeOf(secret);
    expect((await authenticate(await login(), codeOf(secret, 30))).status).toBe(200);
    expect((await authenticate(await login(), code)).json.error.code).toBe("MFA_INVALID_TOKEN");
  });

  it("accepts each recovery code once, also when it comes many times at once", async () => {
    const { login } = await user();
    const { codes } = await enroll(await login());
    const tokens = await Promise.all([login(), login(), login(), login()]);
    const answers = await Promise.all(tokens.map((token) => authenticate(token, codes[3] ?? "")));
    expect(answers.map((each) => each.status).sort()).toEqual([200, 400, 400, 400]);
    // Of one that is all digits there is no other case.
    const other = codes.find((code, i) => i !== 3 && /[A-Z]/.test(code)) ?? "";
    expect((await authenticate(await login(), other.toLowerCase())).status).toBe(400);
    expect((await authenticate(await login(), other)).status).toBe(200);
  });

  it("shows and renews recovery codes for a code only", async () => {
    const { login } = await user();
    const token = await login();
    const view = (code: string) => mfa("GET", token, "/recovery-codes", { headers: { "mfa-validation-code": code } });
    expect((await view("123456")).status).toBe(404);
    await start(token);
    expect((await view("123456")).status).toBe(404);
    expect((await mfa("POST", token, "/recovery-codes", { body: { code: "123456" } })).status).toBe(404);
    await mfa("DELETE", token);
    const { secret, codes } = await enroll(token);
    const [used = "", unused = ""] = codes;
    expect((await authenticate(await login(), used)).status).toBe(200);

    expect((await view("")).json.error.code).toBe("MFA_INVALID_TOKEN");
    expect((await view(unused)).json.error.code).toBe("MFA_INVALID_TOKEN");
    const shown = await view(codeOf(secret));
    expect(shown.json.data.recoveryCodes).toEqual(codes.slice(1));
    const byBody = await mfa("GET", token, "/recovery-codes", { body: { code: codeOf(secret) } });
    expect(byBody.json.data.recoveryCodes).toEqual(codes.slice(1));

    expect((await mfa("POST", token, "/recovery-codes", { body: { code: used } })).status).toBe(400);
    const renewed = await mfa("POST", token, "/recovery-codes", { body: { code: unused } });
    expect([renewed.status, renewed.text]).toEqual([200, '{"data":{},"meta":{}}']);
    const fresh: string[] = (await view(codeOf(secret))).json.data.recoveryCodes;
    expect(fresh).toHaveLength(20);
    expect(fresh.filter((code) => codes.includes(code))).toEqual([]);
    expect((await authenticate(await login(), codes[5] ?? "")).status).toBe(400);
  });

  it("are disabled by a code, and without one while they are not verified", async () => {
    const { id, login } = await user();
    const token = await login();
    const disable = (code?: string) =>
      mfa("DELETE", token, "", code === undefined ? {} : { headers: { "mfa-validation-code": code } });
    expect((await disable()).status).toBe(404);
    await start(token);
    expect((await disable("")).status).toBe(200);
    expect((await mfa("GET", token)).status).toBe(404);

    const { secret, codes } = await enroll(token);
    expect((await disable()).json.error.code).toBe("MFA_INVALID_TOKEN");
    expect((await disable(wrongCode(secret))).status).toBe(400);
    const other = await login();
    expect((await disable(codes[0])).status).toBe(200);
    for (const each of [token, other]) {
      expect((await call("GET", "/current-api-session", { token: each })).json.data).toMatchObject({
        authQueries: [],
        isMfaRequired: false,
        isMfaComplete: false,
      });
    }
    expect((await c.admin("GET", `/identities/${id}`)).json.data.isMfaEnabled).toBe(false);
    expect((await authenticate(other, codeOf(secret))).json.error).toMatchObject({ code: "MFA_NOT_ENROLLED" });
  });

  it("are not needed by an administrator to remove them from another", async () => {
    const { id, login } = await user();
    const { codes } = await enroll(await login());
    const locked = await login();
    expect((await c.admin("DELETE", `/identities/${id}/mfa`)).status).toBe(200);
    expect((await c.admin("DELETE", `/identities/${id}/mfa`)).status).toBe(200);
    expect((await c.admin("DELETE", "/identities/none/mfa")).status).toBe(404);
    expect((await call("GET", "/current-identity", { token: locked })).status).toBe(200);
    expect((await authenticate(locked, codes[0] ?? "")).json.error.code).toBe("MFA_NOT_ENROLLED");
    expect((await c.call("DELETE", `/edge/management/v1/identities/${id}/mfa`, { token: locked })).status).toBe(401);
  });

  it("may be required by the auth policy before an identity has enrolled", async () => {
    const policy = authPolicy(`totp for ${api}`, { extJwt: { allowed: false }, secondary: { requireTotp: true } });
    const authPolicyId = await c.make("auth-policies", policy);
    const { login } = await user({ authPolicyId });
    const token = await login();
    const session = (await call("GET", "/current-api-session", { token })).json.data;
    const query = { typeId: "MFA", provider: "ziti", format: "alphaNumeric", minLength: 4, maxLength: 6 };
    expect(session).toMatchObject({ isMfaRequired: true, isMfaComplete: false });
    expect(session.authQueries).toEqual([{ ...query, httpMethod: "POST", httpUrl: "./authenticate/mfa" }]);
    expect((await authenticate(token, "123456")).json.error).toMatchObject({ code: "MFA_NOT_ENROLLED" });
    expect((await call("GET", "/current-identity", { token })).status).toBe(401);
    expect((await mfa("GET", token)).json.error).toMatchObject({ code: "NOT_FOUND" });
    const { secret } = await enroll(token);
    expect((await call("GET", "/current-api-session", { token })).json.data).toMatchObject({
      ...{ authQueries: [], isMfaRequired: true, isMfaComplete: true },
    });
    expect((await call("GET", "/current-identity", { token })).status).toBe(200);
    const next = await login();
    expect((await call("GET", "/current-api-session", { token: next })).json.data.authQueries).toEqual([
      { ...query, httpMethod: "POST", httpUrl: "./authenticate/mfa", isTotpEnrolled: true },
    ]);
    expect((await mfa("DELETE", token, "", { headers: { "mfa-validation-code": codeOf(secret) } })).status).toBe(200);
    expect((await call("GET", "/current-identity", { token })).status).toBe(401);
  });

  it("pause for who guesses, longer and longer, until a right one", async () => {
    const { login } = await user();
    const token = await login();
    const { secret } = await enroll(token);
    const guess = () => authenticate(token, wrongCode(secret));
    for (let i = 0; i < 5; i++) expect((await guess()).status).toBe(400);
    // A burst gets one more look at most.
    const burst = await Promise.all(Array.from({ length: 10 }, guess));
    expect(burst.map((each) => each.status).sort()).toEqual([400, ...Array.from({ length: 9 }, () => 429)]);
    const refused = await authenticate(token, codeOf(secret));
    expect([refused.status, refused.json.error.code]).toEqual([429, "SERVER_TOO_MANY_REQUESTS"]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    expect(Number(refused.headers["retry-after"])).toBeLessThanOrEqual(30);
    c.clock.offsetMs += 31_000;
    expect((await guess()).status).toBe(400);
    const again = await authenticate(token, codeOf(secret));
    expect(Number(again.headers["retry-after"])).toBeGreaterThan(30);
    c.clock.offsetMs += 61_000;
    expect((await authenticate(token, codeOf(secret))).status).toBe(200);
    expect((await guess()).status).toBe(400);
  });

  it("refuses bodies that hold no code", async () => {
    const token = await (await user()).login();
    const empty = await call("POST", "/authenticate/mfa", { token, body: {} });
    expect(empty.json.error).toMatchObject({ code: "COULD_NOT_VALIDATE", cause: { field: "code" } });
    const number = await call("POST", "/authenticate/mfa", { token, body: { code: 123456 } });
    expect(number.json.error.code).toBe("COULD_NOT_PARSE_BODY");
    expect((await call("POST", "/authenticate/mfa", { body: { code: "123456" } })).status).toBe(401);
  });
});

describe("the store", () => {
  beforeEach(() => {
    c.clock.offsetMs = 0;
  });

  it("holds neither secrets nor recovery codes in the clear, and no enrollment of an identity that is gone", async () => {
    const { id, login } = await user();
    const token = await login();
    await c.call("POST", "/edge/client/v1/current-identity/mfa", { token });
    const { provisioningUrl, recoveryCodes } = (await c.call("GET", "/edge/client/v1/current-identity/mfa", { token }))
      .json.data;
    const secret = new URL(provisioningUrl).searchParams.get("secret") ?? "";
    const rows = await c.ctx.store.db.selectFrom("mfa").selectAll().where("identity_id", "=", id).execute();
    const stored = rows.map((row) => Buffer.concat([row.secret, row.recovery_codes]).toString("latin1")).join();
    expect(rows).toHaveLength(1);
    for (const text of [secret, ...recoveryCodes]) expect(stored).not.toContain(text);
    expect((await c.admin("DELETE", `/identities/${id}`)).status).toBe(200);
    expect(await c.ctx.store.db.selectFrom("mfa").selectAll().where("identity_id", "=", id).execute()).toEqual([]);
  });
});
