/** The login of our own programs, against the provider: what the client of `@sallyport/api` sends is what it takes. */
import { randomUUID } from "node:crypto";
import { type ClientOptions, createClient, type FirstFactor, OidcLogin, type OidcTokens } from "@sallyport/api/client";
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { authPolicy } from "../api/testing/auth-policy.ts";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import { startTokenIssuer, type TokenIssuer } from "../auth/testing/token-issuer.ts";
import { totpCode } from "../model/identity/one-time-codes.ts";
import { certificateIdentity, certificateRequest, passwordIdentity } from "./testing/oidc-client.ts";

let t: TestController;
let idp: TokenIssuer;
let signerId: string;
const ending: (() => void)[] = [];

beforeAll(async () => {
  idp = await startTokenIssuer();
  await idp.addKey("k1");
  t = await startTestController({
    auth: { ...CONTROLLER_DEFAULTS.auth, jwks: { allowedNetworks: ["127.0.0.0/8"], caPem: idp.caPem } },
  });
  signerId = await t.make("external-jwt-signers", {
    ...{ name: "idp", issuer: idp.issuer, audience: "sallyport", enabled: true, jwksEndpoint: idp.jwksUrl },
    ...{ externalAuthUrl: "https://idp.example/login", useExternalId: false },
  });
});

afterEach(() => {
  for (const end of ending.splice(0)) end();
});

afterAll(async () => {
  await t.close();
  await idp.close();
});

type Certificate = Pick<ClientOptions, "cert" | "key">;

const place = () => ({ baseUrl: `https://localhost:${t.port}`, ca: t.pki.caBundlePem });

function provider(certificate: Certificate = {}): OidcLogin {
  const login = new OidcLogin({ ...place(), path: "/oidc", ...certificate });
  ending.push(() => login.close());
  return login;
}

/** Who the Client API takes the bearer of these tokens for. */
async function whoIs(
  { accessToken: token }: OidcTokens,
  more: Certificate & { others?: string[] } = {},
): Promise<string> {
  const { others: externalTokens = [], ...certificate } = more;
  const credential = { kind: "bearer", token, externalTokens } as const;
  const api = createClient("client", { ...place(), ...certificate, credential });
  ending.push(() => api.close());
  return (await api.getCurrentIdentity()).data.name;
}

const password = (username: string): FirstFactor => ({ method: "password", username, password: "password" });

async function logIn(login: OidcLogin, factor: FirstFactor, csrPem?: string): Promise<OidcTokens> {
  const answer = await login.start(factor, { configTypes: ["all"], ...(csrPem !== undefined && { csrPem }) });
  if (answer.kind === "factors") throw new Error("a second factor is asked for");
  return answer.tokens;
}

test("a password gives tokens, which are renewed, and end with the session", async () => {
  const identityId = await passwordIdentity(t, "anna");
  const login = provider();
  const first = await logIn(login, password("anna"));
  expect(first).toMatchObject({ identityId, identityName: "anna" });
  expect(first.expiresAt - Date.now()).toBeGreaterThan(1_700_000);
  expect(await whoIs(first)).toBe("anna");
  const second = await login.refresh(first);
  expect(second).toMatchObject({ identityId, identityName: "anna", apiSessionId: first.apiSessionId });
  expect([second.accessToken === first.accessToken, second.refreshToken === first.refreshToken]).toEqual([
    false,
    false,
  ]);
  expect(await whoIs(second)).toBe("anna");
  await login.end(second);
  await expect(whoIs(second)).rejects.toMatchObject({ status: 401 });
  await expect(login.refresh(second)).rejects.toMatchObject({ status: 400, code: "invalid_grant" });
});

test("a wrong password is refused as the old login refuses it", async () => {
  const wrong = provider().start({ ...password("anna"), password: "wrong" } as FirstFactor);
  await expect(wrong).rejects.toMatchObject({ status: 401, code: "INVALID_AUTH" });
});

test("a certificate binds the tokens", async () => {
  const { cert, key } = await certificateIdentity(t, "carol");
  const login = provider({ cert, key });
  const tokens = await logIn(login, { method: "cert" });
  expect(await whoIs(await login.refresh(tokens), { cert, key })).toBe("carol");
  await expect(whoIs(tokens)).rejects.toMatchObject({ status: 401 });
});

test("a certificate made for the session binds them as well", async () => {
  await passwordIdentity(t, "berta");
  const { csr, key } = await certificateRequest("any");
  const tokens = await logIn(provider(), password("berta"), csr);
  const { sessionCertPem: cert = "" } = tokens;
  expect(await whoIs(tokens, { cert, key })).toBe("berta");
  expect(await whoIs(await provider({ cert, key }).refresh(tokens), { cert, key })).toBe("berta");
  await expect(whoIs(tokens)).rejects.toMatchObject({ status: 401 });
});

test("second factors are given one after the other: a token of another provider, then a one-time code", async () => {
  const authPolicyId = await t.make(
    "auth-policies",
    authPolicy("two more", { secondary: { requireTotp: true, requireExtJwtSigner: signerId } }),
  );
  const identityId = await passwordIdentity(t, "dora", { authPolicyId });
  await t.model.mfa.start(identityId);
  const status = await t.model.mfa.status({ id: identityId, name: "dora" });
  const secret = new URL(status?.pending?.provisioningUrl ?? "").searchParams.get("secret") ?? "";
  await t.model.mfa.verify(identityId, randomUUID(), totpCode(secret, t.ctx.now()));
  const [code = ""] = status?.pending?.recoveryCodes ?? [];
  const login = provider();
  const bearer = await idp.token({ sub: identityId });
  const open = await login.start(password("dora"));
  if (open.kind !== "factors") throw new Error("no second factor is asked for");
  expect(open.queries.map(({ typeId }) => typeId).toSorted()).toEqual(["EXT-JWT", "TOTP"]);
  expect(open.queries.find(({ typeId }) => typeId === "EXT-JWT")).toMatchObject({
    id: signerId,
    httpUrl: "https://idp.example/login",
  });
  const half = await open.answer({ token: bearer });
  if (half.kind !== "factors") throw new Error("no further factor is asked for");
  expect(half.queries.map(({ typeId }) => typeId)).toEqual(["TOTP"]);
  await expect(half.answer({ code: "000000" })).rejects.toMatchObject({ status: 400 });
  const done = await half.answer({ code });
  if (done.kind !== "done") throw new Error("a third factor is asked for");
  await expect(whoIs(done.tokens)).rejects.toMatchObject({ status: 401 });
  expect(await whoIs(done.tokens, { others: [bearer] })).toBe("dora");
});

test("a token of an identity provider logs in, and one that is not valid does not", async () => {
  const identityId = await passwordIdentity(t, "emil");
  const token = await idp.token({ sub: identityId });
  expect(await whoIs(await logIn(provider(), { method: "ext-jwt", token }))).toBe("emil");
  await expect(provider().start({ method: "ext-jwt", token: "a.b.c" })).rejects.toMatchObject({ status: 401 });
});
