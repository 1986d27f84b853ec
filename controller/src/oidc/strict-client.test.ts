/** A client that believes nothing without checking it: metadata, issuer, signature, `nonce`, `azp`, audience. */
import * as oidc from "openid-client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import {
  EXCHANGE,
  locationOf,
  OidcTestClient,
  passwordIdentity,
  REDIRECT_URI,
  TOKEN_TYPE,
} from "./testing/oidc-client.ts";

let t: TestController;
let transport: OidcTestClient;
let config: oidc.Configuration;
let anna: string;
beforeAll(async () => {
  t = await startTestController();
  transport = new OidcTestClient(t);
  anna = await passwordIdentity(t, "anna");
  config = await oidc.discovery(new URL(transport.issuer), "openziti", undefined, oidc.None(), {
    [oidc.customFetch]: async (url, { method, headers, body }) => {
      const { pathname, search } = new URL(url);
      const sent = body === undefined || body === null ? undefined : String(body);
      const answer = await transport.call(method, pathname + search, {
        headers,
        ...(sent !== undefined && { body: sent }),
      });
      const given = Object.entries(answer.headers).filter(
        (each): each is [string, string] => typeof each[1] === "string",
      );
      return new Response(answer.text, { status: answer.status, headers: given });
    },
  });
  oidc.enableNonRepudiationChecks(config);
});
afterAll(() => t.close());

async function logIn(): Promise<oidc.TokenEndpointResponse & oidc.TokenEndpointResponseHelpers> {
  const pkceCodeVerifier = oidc.randomPKCECodeVerifier();
  const [expectedNonce, expectedState] = [oidc.randomNonce(), oidc.randomState()];
  const url = oidc.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT_URI,
    scope: "openid offline_access",
    code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: "S256",
    ...{ nonce: expectedNonce, state: expectedState },
  });
  const begun = await transport.get(url.pathname + url.search);
  const finished = await transport.form(locationOf(begun), { username: "anna", password: "password" });
  const { pathname, search } = new URL(locationOf(finished));
  const back = new URL(locationOf(await transport.get(pathname + search)));
  return oidc.authorizationCodeGrant(config, back, {
    ...{ pkceCodeVerifier, expectedNonce, expectedState },
    idTokenExpected: true,
  });
}

test("a strict client logs in, refreshes, asks who it is, revokes and logs out", async () => {
  const first = await logIn();
  expect(first.claims()).toMatchObject({ sub: anna, iss: transport.issuer, azp: "openziti" });
  const second = await oidc.refreshTokenGrant(config, first.refresh_token ?? "");
  expect(second.claims()).toMatchObject({ sub: anna });
  expect(await oidc.fetchUserInfo(config, second.access_token, anna)).toEqual({ sub: anna, name: "anna" });
  const exchanged = await oidc.genericGrantRequest(config, EXCHANGE, {
    subject_token: second.refresh_token ?? "",
    subject_token_type: `${TOKEN_TYPE}refresh_token`,
    requested_token_type: `${TOKEN_TYPE}access_token`,
  });
  expect(exchanged.expiresIn()).toBeGreaterThan(1_700);
  await oidc.tokenRevocation(config, exchanged.access_token);
  await expect(oidc.fetchUserInfo(config, exchanged.access_token, anna)).rejects.toMatchObject({ status: 401 });
  const out = oidc.buildEndSessionUrl(config, {
    id_token_hint: second.id_token ?? "",
    post_logout_redirect_uri: "http://localhost:8080/auth/logout",
  });
  expect(locationOf(await transport.get(out.pathname + out.search))).toBe("http://localhost:8080/auth/logout");
  await expect(oidc.fetchUserInfo(config, second.access_token, anna)).rejects.toMatchObject({ status: 401 });
  await expect(oidc.refreshTokenGrant(config, second.refresh_token ?? "")).rejects.toMatchObject({
    error: "invalid_grant",
  });
});

test("it reads our errors, too", async () => {
  const first = await logIn();
  await expect(oidc.refreshTokenGrant(config, first.refresh_token ?? "", { scope: "email" })).rejects.toMatchObject({
    error: "invalid_scope",
    status: 400,
  });
});
