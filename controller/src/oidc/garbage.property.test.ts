/** Every parameter of every endpoint missing, doubled, empty, wrong, too long, replayed or of another client: no 500, the error of the standard, and nothing stored. */
import fc from "fast-check";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { authPolicy } from "../api/testing/auth-policy.ts";
import { requestBody } from "../api/testing/garbage.ts";
import { type Answer, startTestController, type TestController } from "../api/testing/test-controller.ts";
import { encodedFields, type Fields, logIn, makeUser, OidcFlow, postForm, TEST_PASSWORD } from "./testing/oidc-flow.ts";

const RUNS = Number(process.env.SALLYPORT_GARBAGE_RUNS ?? 10);
const SEED = Number(process.env.SALLYPORT_GARBAGE_SEED ?? 20_261_127);

let c: TestController;
let username = "";
beforeAll(async () => {
  c = await startTestController();
  ({ username } = await makeUser(c));
});
afterAll(() => c.close());

/** An endpoint with a request that succeeds. */
interface Target {
  readonly name: string;
  send(fields: Fields, headers?: Record<string, string>): Promise<Answer>;
  /** Fields of a request that succeeds, with a login of its own. */
  valid(): Promise<Fields>;
  /** What the request needs: without them, or with another value, it is refused. */
  readonly needed: readonly string[];
  /** What may be missing, and is refused when it is wrong. */
  readonly checked: readonly string[];
  /** What takes any value. */
  readonly free: readonly string[];
  /** May come twice. */
  readonly repeated?: readonly string[];
  /** A second request with the same fields is refused. */
  readonly isOnce: boolean;
}

const get = (path: string) => (fields: Fields, headers?: Record<string, string>) =>
  c.call("GET", `${path}?${encodedFields(fields)}`, { ...(headers && { headers }) });
const post = (path: string) => (fields: Fields, headers?: Record<string, string>) =>
  postForm(c, path, fields, { ...(headers && { headers }) });
const exchange = "urn:ietf:params:oauth:grant-type:token-exchange";
const typeOf = (kind: string) => `urn:ietf:params:oauth:token-type:${kind}`;

const TARGETS: readonly Target[] = [
  {
    name: "authorize",
    send: get("/oidc/authorize"),
    valid: async () => new OidcFlow(c).authorizeFields(),
    needed: ["client_id", "redirect_uri", "response_type", "scope", "code_challenge", "code_challenge_method"],
    checked: [],
    free: ["state", "nonce"],
    isOnce: false,
  },
  {
    name: "login with a password",
    send: post("/oidc/login/password"),
    valid: async () => {
      const flow = new OidcFlow(c);
      return flow.passwordFields(await flow.begin(), username);
    },
    needed: ["id", "username", "password"],
    checked: [],
    free: ["configTypes"],
    repeated: ["configTypes"],
    isOnce: true,
  },
  {
    name: "callback",
    send: get("/oidc/authorize/callback"),
    valid: async () => {
      const flow = new OidcFlow(c);
      return [["id", await flow.password(await flow.begin(), username)]];
    },
    needed: ["id"],
    checked: [],
    free: [],
    isOnce: false,
  },
  {
    name: "token for a code",
    send: post("/oidc/oauth/token"),
    valid: async () => {
      const flow = new OidcFlow(c);
      return flow.codeFields(await flow.code(await flow.password(await flow.begin(), username)));
    },
    needed: ["grant_type", "client_id", "code", "code_verifier", "redirect_uri"],
    checked: [],
    free: [],
    isOnce: true,
  },
  {
    name: "token for a refresh token",
    send: post("/oidc/oauth/token"),
    valid: async () => new OidcFlow(c).refreshFields((await logIn(c, username)).refresh_token),
    needed: ["grant_type", "client_id", "refresh_token"],
    checked: [],
    free: [],
    isOnce: true,
  },
  {
    name: "token exchange",
    send: post("/oidc/oauth/token"),
    valid: async () => [
      ["grant_type", exchange],
      ["client_id", "openziti"],
      ["subject_token", (await logIn(c, username)).refresh_token],
      ["subject_token_type", typeOf("refresh_token")],
      ["requested_token_type", typeOf("refresh_token")],
    ],
    needed: ["grant_type", "client_id", "subject_token", "subject_token_type"],
    checked: ["requested_token_type"],
    free: [],
    isOnce: true,
  },
  {
    name: "revoke",
    send: post("/oidc/revoke"),
    valid: async () => [
      ["client_id", "openziti"],
      ["token", (await logIn(c, username)).access_token],
    ],
    needed: ["client_id"],
    // A token that is nobody's is gone already (RFC 7009, section 2.2).
    checked: [],
    free: ["token"],
    isOnce: false,
  },
  {
    name: "end session",
    send: get("/oidc/end_session"),
    valid: async () => [
      ["id_token_hint", (await logIn(c, username)).id_token],
      ["client_id", "openziti"],
      ["post_logout_redirect_uri", "openziti://auth/logout"],
      ["state", "s"],
    ],
    needed: ["id_token_hint"],
    // Without an address the own page is shown.
    checked: ["client_id", "post_logout_redirect_uri"],
    free: ["state"],
    isOnce: false,
  },
];

/** A failure: 4xx, or a redirect that says so. */
function isRefused({ status, headers }: Answer): boolean {
  return status >= 400 || (status === 302 && /[?&]error=/.test(String(headers.location)));
}

/** In the form that the endpoint has: OAuth's, the login's, or a redirect with `error`. */
function expectFormOfRefusal(answer: Answer, text: string): void {
  expect(answer.status, text).toBeLessThan(500);
  if (answer.status === 302) {
    const { searchParams } = new URL(String(answer.headers.location));
    expect(searchParams.get("error"), text).toMatch(/^[a-z_]+$/);
    expect(searchParams.get("code"), text).toBeNull();
    return;
  }
  expect(answer.status, text).toBeGreaterThanOrEqual(400);
  if (/^text\/(plain|html)/.test(String(answer.headers["content-type"]))) return;
  const { error, error_description, code, message } = answer.json ?? {};
  expect([error ?? code, error_description ?? message], `${text} → ${answer.text}`).toEqual([
    expect.stringMatching(/^\w+$/),
    expect.any(String),
  ]);
}

interface Stored {
  readonly logins: number;
  readonly sessions: number;
  readonly tokens: number;
}

/** Logins under way, sessions, and how often tokens were issued. */
async function stored(): Promise<Stored> {
  const { rows } = await sql<Stored>`
    SELECT (SELECT count(*) FROM oidc_login)::int AS logins, (SELECT count(*) FROM api_session)::int AS sessions,
      (SELECT coalesce(sum(refreshes), 0) FROM oidc_session)::int AS tokens`.execute(c.ctx.store.db);
  return rows[0]!;
}

/** What a refused request must not add. It may end a session: codes and refresh tokens that come twice do. */
async function expectNothingMore(before: Stored, text: string): Promise<void> {
  const after = await stored();
  for (const key of ["logins", "sessions", "tokens"] as const) {
    expect(after[key], `${key} after ${text}`).toBeLessThanOrEqual(before[key]);
  }
}

const without = (fields: Fields, name: string): Fields => fields.filter(([each]) => each !== name);
const changed = (fields: Fields, name: string, value: string): Fields =>
  fields.map(([each, old]) => [each, each === name ? value : old]);
const doubled = (fields: Fields, name: string): Fields =>
  fields.flatMap((each) => (each[0] === name ? [each, each] : [each]));

describe.each(TARGETS)("$name", ({ send, valid, needed, checked, free, repeated = [], isOnce }) => {
  const refuse = async (fields: Fields): Promise<void> => {
    const before = await stored();
    const answer = await send(fields);
    const text = encodedFields(fields).slice(0, 600);
    expect(isRefused(answer), `${answer.status} for ${text}: ${answer.text}`).toBe(true);
    expectFormOfRefusal(answer, text);
    await expectNothingMore(before, text);
    expect(answer.text, text).not.toContain(TEST_PASSWORD);
  };

  it("succeeds with valid parameters, also with unknown ones beside them", async () => {
    const answer = await send([...(await valid()), ["unknown", "1"], ["unknown", "2"]]);
    expect(isRefused(answer), answer.text).toBe(false);
  });

  it.each(needed)("is refused without %s, and when it is empty, wrong, doubled or too long", async (name) => {
    const fields = await valid();
    await refuse(without(fields, name));
    await refuse(changed(fields, name, ""));
    await refuse(changed(await valid(), name, "wrong"));
    await refuse(doubled(await valid(), name));
    await refuse(changed(await valid(), name, "x".repeat(5_000)));
  });

  if (checked.length > 0) {
    it.each(checked)("is refused when %s is wrong, doubled or too long, and not without it", async (name) => {
      await refuse(changed(await valid(), name, "wrong"));
      await refuse(doubled(await valid(), name));
      await refuse(changed(await valid(), name, "x".repeat(5_000)));
      expect(isRefused(await send(without(await valid(), name)))).toBe(false);
    });
  }

  if (free.length > 0) {
    it.each(free)("takes any %s, or none", async (name) => {
      expect((await send(without(await valid(), name))).status).toBeLessThan(500);
      expect(isRefused(await send(changed(await valid(), name, "any")))).toBe(false);
      const twice = await send(doubled(await valid(), name));
      expect(isRefused(twice), twice.text).toBe(!repeated.includes(name));
    });
  }

  if (isOnce) {
    it("is refused when the same request comes again", async () => {
      const fields = await valid();
      expect(isRefused(await send(fields))).toBe(false);
      await refuse(fields);
    });
  }

  if (needed.includes("client_id")) {
    it("is refused for what another client was given", async () => {
      const before = await stored();
      const answer = await send(changed(await valid(), "client_id", "native"));
      // Who begins a login may be either; what was begun belongs to one.
      if (needed.includes("redirect_uri") && needed.includes("scope")) return;
      expect(isRefused(answer), answer.text).toBe(true);
      expect((await stored()).tokens).toBe(before.tokens);
    });
  }

  it(`answers whatever comes without a 500, in the form of a refusal, and stores nothing of it`, async () => {
    const names = [...needed, ...checked, ...free];
    const nasty = fc.oneof(
      {
        weight: 3,
        arbitrary: fc.constantFrom(
          "",
          " ",
          "\u0000",
          "'; DROP TABLE oidc_login; --",
          "%00",
          "../..",
          "🦜",
          "null",
          "[]",
          "a".repeat(70_000),
        ),
      },
      { weight: 2, arbitrary: fc.string({ unit: "binary", maxLength: 20 }).map((text) => text.toWellFormed()) },
    );
    const change = fc.record({
      name: fc.constantFrom(...names),
      how: fc.constantFrom("drop", "double", "replace", "add"),
      value: nasty,
    });
    const accept = fc.constantFrom("application/json", "text/html", "*/*", "", "image/png", ";;;q=x,");
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 4 }), accept, async (changes, accepted) => {
        const fields = changes.reduce<Fields>(
          (all, { name, how, value }) => {
            if (how === "drop") return without(all, name);
            if (how === "double") return doubled(all, name);
            if (how === "replace") return changed(all, name, value);
            return all.concat([[name, value]]);
          },
          await valid(),
        );
        const before = await stored();
        const answer = await send(fields, { accept: accepted }).catch((error: unknown) => {
          // A query beyond the limit of headers ends the connection.
          if (encodedFields(fields).length > 8_000) return undefined;
          throw error;
        });
        if (answer === undefined) return;
        const text = JSON.stringify([fields, accepted]).slice(0, 600);
        expect(answer.status, `${text} → ${answer.text}`).toBeLessThan(500);
        if (!isRefused(answer)) return;
        expectFormOfRefusal(answer, text);
        await expectNothingMore(before, text);
      }),
      { numRuns: RUNS, seed: SEED, endOnFailure: true },
    );
  });
});

describe("steps of a login with JSON", () => {
  const text = z.string().optional();
  const info = z.record(z.string(), z.string()).optional();
  const shape = z.object({
    ...{ id: text, username: text, password: text, code: text, pageSecret: text, csrPem: text },
    ...{ configTypes: z.array(z.string()).optional(), sdkInfo: info, envInfo: info },
  });

  it.each([
    ["POST", "password"],
    ["POST", "cert"],
    ["POST", "ext-jwt"],
    ["POST", "totp"],
    ["POST", "totp/enroll"],
    ["DELETE", "totp/enroll"],
    ["POST", "totp/enroll/verify"],
  ])("%s %s: no 500, and no session more of what is refused", async (method, step) => {
    const authPolicyId = await c.make(
      "auth-policies",
      authPolicy(`${method} ${step}`, { secondary: { requireTotp: true } }),
    );
    const user = await makeUser(c, { authPolicyId });
    const flow = new OidcFlow(c);
    const [fresh, proved] = [await flow.begin(), await flow.begin()];
    expect((await postForm(c, "/oidc/login/password", flow.passwordFields(proved, user.username))).status).toBe(200);
    const body = requestBody(shape, [fresh, proved, user.username, TEST_PASSWORD, "000000", "all"]);
    const inQuery = fc.constantFrom(
      "",
      `?id=${proved}`,
      `?authRequestID=${fresh}`,
      `?id=${proved}&id=${fresh}`,
      "?id=%00",
      "?id=",
    );
    const headers = { "content-type": "application/json", accept: "application/json" };
    await fc.assert(
      fc.asyncProperty(body, inQuery, async (content, query) => {
        const before = await stored();
        const answer = await c.call(method, `/oidc/login/${step}${query}`, { headers, body: content.toWellFormed() });
        const sent = `${content.slice(0, 300)} ${query}`;
        expect(answer.status, `${sent} → ${answer.text}`).toBeLessThan(500);
        if (!isRefused(answer)) return;
        expectFormOfRefusal(answer, sent);
        await expectNothingMore(before, sent);
      }),
      { numRuns: RUNS * 3, seed: SEED, endOnFailure: true },
    );
  });
});
