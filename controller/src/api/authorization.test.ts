/** Who may call what: the rule of every operation, and every caller whom it keeps out, on a controller with real sessions. */
import { once } from "node:events";
import { Agent, request as httpsRequest } from "node:https";
import { json } from "node:stream/consumers";
import { type ApiName, BASE_PATHS, type Operation, operations } from "@sallyport/api";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { authPolicy } from "./testing/auth-policy.ts";
import { startTestController, type TestController } from "./testing/test-controller.ts";

type Rule = Operation["auth"];

const MFA = ["detailMfa", "detailMfaQrCode", "enrollMfa", "verifyMfa"];
const PARTIAL = ["authenticateMfa", "deleteCurrentAPISession", "getCurrentAPISession", ...MFA];
const OPEN = [
  ...["authenticate", "detailSpec", "detailSpecBody", "listEnumeratedCapabilities", "listNetworkJWTs"],
  ...["listRoot", "listSpecs", "listVersion", "listWellKnownCas"],
];
const OWN = [
  ...["createMfaRecoveryCodes", "deleteMfa", "detailMfaRecoveryCodes", "getCurrentIdentity"],
  ...["detailCurrentIdentityAuthenticator", "listCurrentIdentityAuthenticators"],
  ...["patchCurrentIdentityAuthenticator", "updateCurrentIdentityAuthenticator"],
  ...["extendCurrentIdentityAuthenticator", "extendVerifyCurrentIdentityAuthenticator"],
  ...["createTotpToken", "listEnumeratedRouterCapabilities"],
];
const ENROLL = [
  "enroll",
  "enrollCa",
  "enrollErOtt",
  "enrollOtt",
  "enrollOttCa",
  "ernollUpdb",
  "extendRouterEnrollment",
  ...["enrollToken", "enrollmentChallenge", "getEnrollmentJwks"],
];

/** What differs from the rule of its API, written down apart from the table of operations: a slip there is seen here. */
const RULES: Readonly<Record<ApiName, { readonly all: Rule; readonly but: Partial<Record<Rule, readonly string[]>> }>> =
  {
    client: {
      all: "full",
      but: {
        public: [...OPEN, ...ENROLL, "listExternalJwtSigners", "listProtocols"],
        partial: PARTIAL,
        admin: ["deleteService", "patchService", "updateService"],
      },
    },
    management: {
      all: "admin",
      but: {
        public: OPEN,
        partial: PARTIAL,
        // Of sessions others see their own; counts and controllers are no secrets (docs/decisions.md).
        full: [...OWN, "deleteSession", "detailSession", "listSessions", "listControllers", "listSummary"],
      },
    },
    fabric: { all: "admin", but: { public: ["getFabricSpec"] } },
  };

const LEVELS: Readonly<Record<Rule, number>> = { public: 0, partial: 1, full: 2, admin: 3 };

const all = (Object.keys(operations) as ApiName[]).flatMap((api) =>
  Object.entries<Operation>(operations[api]).map(([id, operation]) => ({ api, id, operation })),
);

test.each(all)("$api $id has its rule", ({ api, id, operation }) => {
  const { all: usual, but } = RULES[api];
  const special = (Object.keys(but) as Rule[]).filter((rule) => but[rule]?.includes(id));
  expect(special.length).toBeLessThan(2);
  expect(operation.auth).toBe(special[0] ?? usual);
});

test("0.24.1: every operation of the Fabric API but its description is for administrators", () => {
  const others = all.filter(({ api, operation }) => api === "fabric" && operation.auth !== "admin");
  expect(others.map(({ id }) => id)).toEqual(["getFabricSpec"]);
});

let c: TestController;
let agent: Agent;
/** Tokens by who sends them, and how far each gets. */
const callers: { who: string; token: string | undefined; level: number }[] = [];

beforeAll(async () => {
  c = await startTestController();
  agent = new Agent({ keepAlive: true, maxSockets: 1, ca: c.pki.caBundlePem });
  const policy = (name: string, secondary: object) => c.make("auth-policies", authPolicy(name, { secondary }));
  const totp = await policy("totp", { requireTotp: true });
  const signer = await c.make("external-jwt-signers", {
    name: "signer",
    issuer: "https://issuer.example",
    audience: "us",
    enabled: true,
    jwksEndpoint: "https://issuer.example/jwks",
  });
  const token = await policy("token", { requireTotp: false, requireExtJwtSigner: signer });
  const person = async (name: string, more: object): Promise<string> => {
    const identityId = await c.make("identities", { name, type: "Default", isAdmin: false, ...more });
    await c.make("authenticators", { identityId, method: "updb", username: name, password: "correct horse" });
    return identityId;
  };
  await person("full", {});
  await person("without code", { isAdmin: true, authPolicyId: totp });
  await person("without token", { isAdmin: true, authPolicyId: token });
  await person("logged out", { isAdmin: true });
  const disabled = await person("disabled", { isAdmin: true });
  const login = (name: string) => c.login(name, "correct horse");
  const ended = await login("logged out");
  expect((await ask("DELETE", "/edge/client/v1/current-api-session", ended)).status).toBe(200);
  await c.model.identities.disable(disabled, 0);
  // As if it had been made in the moment in which the identity was disabled.
  const late = await c.ctx.store.transaction((trx) =>
    c.model.apiSessions.insert(trx, {
      identityId: disabled,
      authenticatorId: "late",
      ipAddress: "127.0.0.1",
      configTypes: [],
      certFingerprints: [],
      improperClientCertChain: false,
    }),
  );
  callers.push(
    { who: "nobody", token: undefined, level: 0 },
    { who: "a token that is none", token: "'; DROP TABLE identity; --", level: 0 },
    { who: "an unknown token", token: "00000000-0000-4000-8000-000000000000", level: 0 },
    { who: "a session that has ended", token: ended, level: 0 },
    { who: "an administrator who is disabled", token: late.token, level: 0 },
    { who: "an administrator without one-time code", token: await login("without code"), level: 1 },
    { who: "an administrator without the token of every request", token: await login("without token"), level: 1 },
    { who: "an identity that is no administrator", token: await login("full"), level: 2 },
  );
});
afterAll(async () => {
  agent.destroy();
  await c.close();
});

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
async function ask(method: string, path: string, token: string | undefined): Promise<{ status: number; body: any }> {
  const request = httpsRequest({
    ...{ host: "127.0.0.1", port: c.port, servername: "localhost", agent, method, path },
    headers: token === undefined ? {} : { "zt-session": token },
  });
  request.end();
  const [response] = await once(request, "response");
  return { status: response.statusCode, body: await json(response) };
}

async function stored(): Promise<unknown> {
  const { rows } = await sql`SELECT count(*) FROM change_log`.execute(c.ctx.store.db);
  return rows;
}

describe("a caller without the right gets 401 UNAUTHORIZED without a reason, and nothing happens:", () => {
  test.each(all.filter(({ operation }) => operation.auth !== "public"))("$api $id", async ({ api, operation }) => {
    const path = BASE_PATHS[api] + operation.path.replaceAll(/\{\w+\}/g, "default");
    const before = await stored();
    for (const { who, token } of callers.filter(({ level }) => level < LEVELS[operation.auth])) {
      const { status, body } = await ask(operation.method, path, token);
      expect(status, who).toBe(401);
      expect(body.error, who).toEqual({
        code: "UNAUTHORIZED",
        message: expect.any(String),
        requestId: expect.any(String),
      });
    }
    expect(await stored()).toEqual(before);
  });

  test("and the sessions that tried are as good as before", async () => {
    for (const { who, token, level } of callers) {
      const own = await ask("GET", "/edge/management/v1/current-api-session", token);
      expect(own.status, who).toBe(level >= 1 ? 200 : 401);
      const identity = await ask("GET", "/edge/client/v1/current-identity", token);
      expect(identity.status, who).toBe(level >= 2 ? 200 : 401);
    }
  });
});
