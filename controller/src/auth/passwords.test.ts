import { hash } from "@node-rs/argon2";
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { authPolicy } from "../api/testing/auth-policy.ts";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";

const MANAGEMENT = "/edge/management/v1";
const CLIENT = "/edge/client/v1";
const MINUTE = 60_000;

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

let made = 0;
const policyOf = async (updb: object): Promise<string> =>
  c.make("auth-policies", authPolicy(`policy ${++made}`, { updb, extJwt: { allowed: false } }));
/** An identity with a user name equal to its name, and the password `Start-1`. */
const user = async (updb: object = {}) => {
  const name = `user ${++made}`;
  const authPolicyId = await policyOf(updb);
  const identityId = await c.make("identities", { name, type: "User", isAdmin: false, authPolicyId });
  const id = await c.make("authenticators", { identityId, method: "updb", username: name, password: "Start-1" });
  return { name, identityId, authPolicyId, id };
};
const login = (username: string, password: string) =>
  c.call("POST", `${CLIENT}/authenticate?method=password`, { body: { username, password } });

describe("5.6: the rules of a policy hold wherever a password is set", () => {
  const rules = { minPasswordLength: 7, requireMixedCase: true, requireNumberChar: true, requireSpecialChar: true };
  const refusals: [string, string][] = [
    ["Sh-1", "at least"],
    ["Abc-12", "password must have at least 7 characters"],
    ["abcdef-1", "password must have upper and lower case letters"],
    ["ABCDEF-1", "password must have upper and lower case letters"],
    ["Abcdef-x", "password must have a digit"],
    ["Abcdef1x", "password must have a special character"],
  ];
  type Setting = (password: string) => Promise<{ status: number; json: { error: { cause: object } } }>;

  const ways: [string, () => Promise<Setting>][] = [
    [
      "create authenticator",
      async () => {
        const authPolicyId = await policyOf(rules);
        const name = `fresh ${++made}`;
        const identityId = await c.make("identities", { name, type: "User", isAdmin: false, authPolicyId });
        return (password) =>
          c.admin("POST", "/authenticators", { identityId, method: "updb", username: name, password });
      },
    ],
    [
      "enroll updb",
      async () => {
        const authPolicyId = await policyOf(rules);
        const name = `enrolling ${++made}`;
        const enrollment = { updb: name };
        const id = await c.make("identities", { name, type: "User", isAdmin: false, authPolicyId, enrollment });
        const { token } = (await c.admin("GET", `/identities/${id}`)).json.data.enrollment.updb;
        return (password) =>
          c.call("POST", `${CLIENT}/enroll?method=updb&token=${token}`, { body: { username: name, password } });
      },
    ],
    ...(["PUT", "PATCH"] as const).map((method): [string, () => Promise<Setting>] => [
      `${method} by an administrator`,
      async () => {
        const { name, id } = await user(rules);
        return (password) => c.admin(method, `/authenticators/${id}`, { username: name, password });
      },
    ]),
    ...([MANAGEMENT, CLIENT] as const).flatMap((api) =>
      (["PUT", "PATCH"] as const).map((method): [string, () => Promise<Setting>] => [
        `${method} ${api}/current-identity/authenticators`,
        async () => {
          const { name, id } = await user(rules);
          const token = await c.login(name, "Start-1");
          return (password) =>
            c.call(method, `${api}/current-identity/authenticators/${id}`, {
              token,
              body: { username: name, password, currentPassword: "Start-1" },
            });
        },
      ]),
    ),
  ];
  test.each(ways)("%s", async (_way, prepare) => {
    const set = await prepare();
    for (const [password, reason] of refusals) {
      const answer = await set(password);
      expect(answer.status).toBe(400);
      expect(answer.json.error.cause).toMatchObject({
        field: "password",
        reason: expect.stringContaining(reason),
        value: "",
      });
    }
    expect((await set("Abcdef-1")).status).toBeLessThan(300);
  });

  test("lengths are those of the specification, whatever the policy: 5 to 100, user names 4 to 100", async () => {
    const { name, id } = await user();
    for (const [field, value, status] of [
      ["password", "1234", 400],
      ["password", "12345", 200],
      ["password", "p".repeat(100), 200],
      ["password", "p".repeat(101), 400],
      ["username", "abc", 400],
      ["username", "u".repeat(101), 400],
      ["username", `${name}!`, 200],
    ] as const) {
      expect((await c.admin("PATCH", `/authenticators/${id}`, { [field]: value })).status).toBe(status);
    }
    const identityId = await c.make("identities", { name: "short", type: "User", isAdmin: false });
    const body = { identityId, method: "updb", username: "abc", password: "12345" };
    expect((await c.admin("POST", "/authenticators", body)).json.error.cause.field).toBe("username");
  });
});

describe("5.10: one's own authenticator", () => {
  test("changes with the current password, and only the fields that are there", async () => {
    const { name, id } = await user();
    const token = await c.login(name, "Start-1");
    const path = `${CLIENT}/current-identity/authenticators/${id}`;
    const patch = (body: object) => c.call("PATCH", path, { token, body });
    expect((await patch({ currentPassword: "Start-1", password: "Second-2" })).status).toBe(200);
    expect((await login(name, "Start-1")).status).toBe(401);
    expect((await login(name, "Second-2")).status).toBe(200);
    expect((await patch({ currentPassword: "Second-2", username: `${name} x`, password: null })).status).toBe(200);
    expect((await login(`${name} x`, "Second-2")).status).toBe(200);
    const put = { currentPassword: "Second-2", username: name, password: "Third-3", tags: { a: 1 } };
    expect((await c.call("PUT", path, { token, body: put })).status).toBe(200);
    expect((await c.call("GET", path, { token })).json.data).toMatchObject({ username: name, tags: { a: 1 } });
  });

  test("is refused with a wrong current password: 401 naming the field, and it counts towards the lockout", async () => {
    const { name, id } = await user({ maxAttempts: 1 });
    const token = await c.login(name, "Start-1");
    const body = { currentPassword: "wrong-1", password: "Second-2" };
    const change = () => c.call("PATCH", `${MANAGEMENT}/current-identity/authenticators/${id}`, { token, body });
    const answer = await change();
    expect(answer.status).toBe(401);
    expect(answer.json.error).toMatchObject({ code: "UNAUTHORIZED", cause: { field: "currentPassword" } });
    expect(answer.json.error.cause.value).toBe("");
    await change();
    expect((await login(name, "Start-1")).status).toBe(401);
    expect((await c.call("GET", `${CLIENT}/current-identity`, { token })).status).toBe(401);
  });

  test("needs the current password, and an authenticator of the caller's own", async () => {
    const [one, other] = [await user(), await user()];
    const token = await c.login(one.name, "Start-1");
    const path = (id: string) => `${CLIENT}/current-identity/authenticators/${id}`;
    const missing = await c.call("PATCH", path(one.id), { token, body: { password: "Second-2" } });
    expect([missing.status, missing.json.error.cause.field]).toEqual([400, "currentPassword"]);
    const foreign = { currentPassword: "Start-1", username: other.name, password: "Second-2" };
    for (const method of ["PUT", "PATCH"]) {
      const answer = await c.call(method, path(other.id), { token, body: foreign });
      expect([answer.status, answer.json.error.code]).toEqual([404, "NOT_FOUND"]);
    }
    expect((await login(other.name, "Start-1")).status).toBe(200);
  });

  test("of a taken user name is refused: 400", async () => {
    const [one, other] = [await user(), await user()];
    const answer = await c.admin("PATCH", `/authenticators/${one.id}`, { username: other.name });
    expect([answer.status, answer.json.error.cause.field]).toEqual([400, "username"]);
  });

  test("5.10: a second of its kind is refused: 409", async () => {
    const { identityId } = await user();
    const body = { identityId, method: "updb", username: `again ${++made}`, password: "Second-2" };
    const answer = await c.admin("POST", "/authenticators", body);
    expect([answer.status, answer.json.error.code]).toEqual([409, "MAX_AUTHENTICATOR_METHODS_REACHED"]);
  });
});

describe("5.3: failed passwords", () => {
  const fail = async (name: string, times: number) => {
    for (let i = 0; i < times; i++) expect((await login(name, "wrong-1")).status).toBe(401);
  };
  const isIn = async (name: string) => (await login(name, "Start-1")).status === 200;

  test("more in a row than maxAttempts disable the identity for the lockout, and end its sessions", async () => {
    const { name, identityId } = await user({ maxAttempts: 2, lockoutDurationMinutes: 3 });
    const token = await c.login(name, "Start-1");
    await fail(name, 2);
    expect(await isIn(name)).toBe(true);
    await fail(name, 3);
    expect(await isIn(name)).toBe(false);
    expect((await c.call("GET", `${CLIENT}/current-identity`, { token })).status).toBe(401);
    const { disabled, disabledAt, disabledUntil } = (await c.admin("GET", `/identities/${identityId}`)).json.data;
    expect(disabled).toBe(true);
    expect(Date.parse(disabledUntil) - Date.parse(disabledAt)).toBe(3 * MINUTE);
    c.clock.offsetMs += 3 * MINUTE;
    expect(await isIn(name)).toBe(true);
    c.clock.offsetMs = 0;
  });

  test("with a lockout of 0 disable until an administrator enables the identity", async () => {
    const { name, identityId } = await user({ maxAttempts: 1 });
    await fail(name, 2);
    c.clock.offsetMs += 1_000 * 60 * MINUTE;
    expect(await isIn(name)).toBe(false);
    c.clock.offsetMs = 0;
    expect((await c.admin("GET", `/identities/${identityId}`)).json.data.disabledUntil).toBeUndefined();
    await c.admin("POST", `/identities/${identityId}/enable`);
    expect(await isIn(name)).toBe(true);
  });

  test("without maxAttempts lock no identity out", async () => {
    const { name } = await user({ maxAttempts: 0, lockoutDurationMinutes: 1 });
    await fail(name, 12);
    expect(await isIn(name)).toBe(true);
  });

  test("never shorten what an administrator has set", async () => {
    const { name, identityId } = await user({ maxAttempts: 1, lockoutDurationMinutes: 1 });
    await c.admin("POST", `/identities/${identityId}/disable`, { durationMinutes: 0 });
    await fail(name, 5);
    expect((await c.admin("GET", `/identities/${identityId}`)).json.data.disabledUntil).toBeUndefined();
    c.clock.offsetMs += 5 * MINUTE;
    expect(await isIn(name)).toBe(false);
    c.clock.offsetMs = 0;
  });

  test("and unknown names, disabled identities and policies without passwords look alike", async () => {
    const disabled = await user();
    await c.admin("POST", `/identities/${disabled.identityId}/disable`, { durationMinutes: 5 });
    const forbidden = await user({ allowed: false });
    const answers = [
      await login("no such user", "Start-1"),
      await login(disabled.name, "Start-1"),
      await login(forbidden.name, "Start-1"),
      await login(forbidden.name, "wrong-1"),
    ];
    const errors = answers.map(({ status, json }) => ({ status, ...json.error, requestId: "" }));
    expect(new Set(errors.map((error) => JSON.stringify(error))).size).toBe(1);
    expect(errors[0]).toMatchObject({ status: 401, code: "INVALID_AUTH" });
  });
});

describe("a hash of earlier parameters", () => {
  test("is renewed at the login that proves the password, and only then", async () => {
    const { name, id } = await user();
    const weak = await hash("Start-1", { memoryCost: 3_072, timeCost: 1, parallelism: 4, algorithm: 2 });
    const { db } = c.ctx.store;
    await db.updateTable("authenticator").set({ password_hash: weak }).where("id", "=", id).execute();
    const stored = async () => (await c.model.authenticators.get(db, id)).password_hash;
    expect((await login(name, "wrong-1")).status).toBe(401);
    expect(await stored()).toBe(weak);
    expect((await login(name, "Start-1")).status).toBe(200);
    const renewed = await stored();
    expect(renewed).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    expect((await login(name, "Start-1")).status).toBe(200);
    expect(await stored()).toBe(renewed);
  });
});

describe("sessions", () => {
  test("5.9: end by logout, and after the timeout without activity", async () => {
    const { name } = await user();
    const tokens = [await c.login(name, "Start-1"), await c.login(name, "Start-1")];
    const isAlive = async (token: string | undefined) =>
      (await c.call("GET", `${CLIENT}/current-api-session`, { token: token! })).status === 200;
    expect((await c.call("DELETE", `${CLIENT}/current-api-session`, { token: tokens[0]! })).json).toEqual({
      data: {},
      meta: {},
    });
    expect([await isAlive(tokens[0]), await isAlive(tokens[1])]).toEqual([false, true]);
    c.clock.offsetMs = c.model.apiSessions.timeoutMs - MINUTE;
    expect(await isAlive(tokens[1])).toBe(true);
    c.clock.offsetMs += c.model.apiSessions.timeoutMs - MINUTE;
    expect(await isAlive(tokens[1])).toBe(true);
    c.clock.offsetMs += c.model.apiSessions.timeoutMs;
    expect(await isAlive(tokens[1])).toBe(false);
    c.clock.offsetMs = 0;
  });

  test("5.10: disabling with a duration or without end ends them; enabling does not bring them back", async () => {
    const { name, identityId } = await user();
    for (const durationMinutes of [5, 0, -1, 1e15]) {
      const token = await c.login(name, "Start-1");
      const answer = await c.admin("POST", `/identities/${identityId}/disable`, { durationMinutes });
      expect(answer.json).toEqual({ data: {}, meta: {} });
      expect((await login(name, "Start-1")).status).toBe(401);
      const { disabledUntil } = (await c.admin("GET", `/identities/${identityId}`)).json.data;
      expect(disabledUntil === undefined).toBe(durationMinutes !== 5);
      await c.admin("POST", `/identities/${identityId}/enable`);
      expect((await c.call("GET", `${CLIENT}/current-identity`, { token })).status).toBe(401);
    }
  });
});

describe("with small limits", () => {
  let small: TestController;
  beforeAll(async () => {
    small = await startTestController({
      auth: {
        ...CONTROLLER_DEFAULTS.auth,
        maxApiSessions: 3,
        rateLimits: {
          enabled: true,
          address: { burst: 40, perMinute: 1 },
          failures: { burst: 3, perMinute: 1 },
        },
      },
    });
  });
  afterAll(() => small.close());
  const tryLogin = (username: string, password: string) =>
    small.call("POST", `${CLIENT}/authenticate?method=password`, { body: { username, password } });

  test("the session that is idle for longest gives way to a new one", async () => {
    const id = await small.make("identities", { name: "many", type: "User", isAdmin: false });
    await small.make("authenticators", { identityId: id, method: "updb", username: "many", password: "many-1" });
    const isAlive = async (token: string) =>
      (await small.call("GET", `${CLIENT}/current-api-session`, { token })).status === 200;
    const tokens: string[] = [];
    for (let i = 0; i < 3; i++) {
      tokens.push(await small.login("many", "many-1"));
      small.clock.offsetMs += 1_000;
    }
    // The first is used again: the second is unused.
    expect(await isAlive(tokens[0]!)).toBe(true);
    tokens.push(await small.login("many", "many-1"));
    expect(await Promise.all(tokens.map(isAlive))).toEqual([true, false, true, true]);
  });

  test("wrong passwords for one name are slowed down with 429 and Retry-After, other names are not", async () => {
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) statuses.push((await tryLogin("guessed", "wrong-1")).status);
    expect(statuses).toEqual([401, 401, 401, 429]);
    const answer = await tryLogin("guessed", "wrong-1");
    expect(answer.json.error.code).toBe("SERVER_TOO_MANY_REQUESTS");
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(30);
    expect((await tryLogin("other", "wrong-1")).status).toBe(401);
    expect((await tryLogin("many", "many-1")).status).toBe(200);
  });

  test("attempts of one address are limited, enrollments among them; sessions work on", async () => {
    const token = await small.login("many", "many-1");
    let last = 0;
    for (let i = 0; i < 40 && last !== 429; i++) {
      last = (await small.call("POST", `${CLIENT}/enroll?method=ott&token=x`, { body: {} })).status;
    }
    expect(last).toBe(429);
    // However the path is written.
    for (const path of ["%65nroll", "enroll/", "enroll%2Fott", "enroll/%6ftt", "enroll/ca/"]) {
      const { status } = await small.call("POST", `${CLIENT}/${path}?method=ott&token=x`, { body: {} });
      expect([404, 429], path).toContain(status);
    }
    const refused = await tryLogin("many", "many-1");
    expect([refused.status, refused.json.error.code]).toEqual([429, "SERVER_TOO_MANY_REQUESTS"]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    expect((await small.call("GET", `${CLIENT}/current-api-session`, { token })).status).toBe(200);
    expect((await small.call("GET", `${CLIENT}/version`)).status).toBe(200);
  });
});
