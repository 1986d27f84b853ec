/** Every way to show a session that the descriptions name is honoured by every operation, and no token of another kind is. */
import { once } from "node:events";
import { Agent, request as httpsRequest } from "node:https";
import { text } from "node:stream/consumers";
import { type ApiName, BASE_PATHS, type Operation, openApiDocument, operations } from "@sallyport/api";
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTokenIssuer, type TokenIssuer } from "../auth/testing/token-issuer.ts";
import { authPolicy } from "./testing/auth-policy.ts";
import { beginOidcLogin, finishOidcLogin, loginByOidc, type OidcClient, tokenSubject } from "./testing/oidc-client.ts";
import { startTestController, type TestController } from "./testing/test-controller.ts";

type Headers = Readonly<Record<string, string | string[]>>;
type Scheme = "ztSession" | "svcSession" | "oauth2" | "bearer";

const all = (Object.keys(operations) as ApiName[]).flatMap((api) => {
  const { paths } = openApiDocument(api, { oidc: true });
  return Object.entries<Operation>(operations[api]).flatMap(([id, operation]) => {
    const described = paths[operation.path]?.[operation.method.toLowerCase()]?.security as Record<Scheme, unknown>[];
    const schemes = described.map((scheme) => Object.keys(scheme) as Scheme[]);
    return operation.auth === "public" ? [] : [{ api, id, operation, schemes }];
  });
});

let c: TestController;
let idp: TokenIssuer;
let agent: Agent;
let external: string;
/** An administrator without and with a token as second factor. */
const sessions: Record<"plain" | "withFactor", { readonly token: string; readonly oidc: OidcClient }> =
  Object.create(null);

beforeAll(async () => {
  idp = await startTokenIssuer();
  await idp.addKey("k1");
  const jwks = { allowedNetworks: ["127.0.0.0/8"], caPem: idp.caPem };
  c = await startTestController({ auth: { ...CONTROLLER_DEFAULTS.auth, jwks } });
  agent = new Agent({ keepAlive: true, maxSockets: 1, ca: c.pki.caBundlePem });
  const signer = await c.make("external-jwt-signers", {
    ...{ name: "signer", issuer: idp.issuer, audience: "sallyport", enabled: true, jwksEndpoint: idp.jwksUrl },
  });
  const secondary = { requireTotp: false, requireExtJwtSigner: signer };
  const policy = await c.make("auth-policies", authPolicy("factor", { secondary }));
  const administrator = async (username: string, more: object): Promise<string> => {
    const id = await c.make("identities", { name: username, type: "User", isAdmin: true, ...more });
    await c.make("authenticators", { identityId: id, method: "updb", username, password: "correct horse" });
    return id;
  };
  const login = async (username: string) => ({
    token: await c.login(username, "correct horse"),
    oidc: await loginByOidc(c, { username, password: "correct horse" }),
  });
  await administrator("plain", {});
  const id = await administrator("factored", { authPolicyId: policy });
  external = await idp.token({ sub: id });
  sessions.plain = await login("plain");
  sessions.withFactor = await login("factored");
});
afterAll(async () => {
  agent.destroy();
  await c.close();
  await idp.close();
});

function headersOf(scheme: readonly Scheme[]): Headers {
  const { token, oidc } = scheme.includes("bearer") ? sessions.withFactor : sessions.plain;
  const bearers = [
    ...(scheme.includes("oauth2") ? [oidc.accessToken] : []),
    ...(scheme.includes("bearer") ? [external] : []),
  ].map((each) => `Bearer ${each}`);
  return {
    ...(scheme.includes("ztSession") && { "zt-session": token }),
    ...(scheme.includes("svcSession") && { "svc-session": token }),
    ...(bearers.length > 0 && { authorization: bearers }),
  };
}

async function ask(api: ApiName, { method, path }: Operation, headers: Headers) {
  const request = httpsRequest({
    ...{ host: "127.0.0.1", port: c.port, servername: "localhost", agent, method, headers },
    path: BASE_PATHS[api] + path.replaceAll(/\{\w+\}/g, "none"),
  });
  request.end();
  const [response] = await once(request, "response");
  return { status: response.statusCode as number, body: await text(response) };
}

describe("an operation honours every scheme of its description:", () => {
  test.each(all)("$api $id", async ({ api, operation, schemes }) => {
    expect(schemes).toHaveLength(6);
    for (const scheme of schemes) {
      // What comes after the session: no operation can answer with this type.
      const { status, body } = await ask(api, operation, { ...headersOf(scheme), accept: "image/nothing" });
      expect([scheme, status], body).toEqual([scheme, 406]);
    }
    if (operation.auth === "partial") return;
    const withoutFactor = { authorization: `Bearer ${sessions.withFactor.oidc.accessToken}`, accept: "image/nothing" };
    expect((await ask(api, operation, withoutFactor)).status).toBe(401);
  });
});

/** Lists and records that do not show the session itself, and no path that names an entity. */
const reading = all.filter(
  ({ operation: { method, path } }) =>
    method === "GET" && !path.includes("{") && !/session|current|revocations/.test(path),
);
test.each(reading)("$api $id answers the same to a session and to an access token", async ({ api, operation }) => {
  const [bySession, byToken] = [
    await ask(api, operation, headersOf(["ztSession"])),
    await ask(api, operation, headersOf(["oauth2"])),
  ];
  expect(byToken.status).toBe(bySession.status);
  const withoutId = (body: string) => body.replace(/"requestId":"[^"]*"/, "");
  expect(withoutId(byToken.body)).toBe(withoutId(bySession.body));
});

test("no token of another kind is a session, for any rule of any API", async () => {
  const id = await beginOidcLogin(c, { username: "plain", password: "correct horse" });
  const { refreshToken, accessToken } = await finishOidcLogin(c, id);
  const subject = await tokenSubject(c, id);
  const { issuer } = c.ctx.tokens;
  const service = { id, serviceId: "s", apiSessionId: id, identityId: subject.identity.id, type: "Dial" } as const;
  const others = {
    refresh: refreshToken,
    id: issuer.id(subject, { accessToken }).token,
    totp: issuer.totp(subject, c.ctx.now()).token,
    service: issuer.service(service, { isLegacy: false }).token,
    external,
  };
  const byRule = new Map(all.map((each) => [`${each.api} ${each.operation.auth}`, each]));
  for (const [rule, { api, operation }] of byRule) {
    for (const [kind, token] of Object.entries(others)) {
      const { status } = await ask(api, operation, { authorization: `Bearer ${token}`, accept: "image/nothing" });
      expect([rule, kind, status]).toEqual([rule, kind, 401]);
    }
  }
});

test("logins by OIDC are announced, and access tokens described, where they are served", async () => {
  const versionOf = async (controller: TestController) =>
    (await controller.call("GET", "/edge/client/v1/version")).json.data;
  const path = "/oidc";
  expect(await versionOf(c)).toMatchObject({
    apiVersions: { "edge-oidc": { v1: { path, apiBaseUrls: [`https://localhost:${c.port}${path}`] } } },
    capabilities: ["OIDC_AUTH", "OIDC_AUTH_WITH_CSR"],
  });
  const description = async (controller: TestController) =>
    (
      await controller.call("GET", "/edge/client/v1/specs/edge-client/spec", {
        headers: { accept: "application/json" },
      })
    ).json;
  expect((await description(c)).components.securitySchemes).toHaveProperty("oauth2");
  const without = await startTestController({ oidc: { enabled: false } });
  try {
    const version = await versionOf(without);
    expect([version.capabilities, "edge-oidc" in version.apiVersions]).toEqual([[], false]);
    expect((await description(without)).components.securitySchemes).not.toHaveProperty("oauth2");
  } finally {
    await without.close();
  }
});
