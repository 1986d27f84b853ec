import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loginAtProvider, type ProviderSigner } from "./provider-login.ts";
import type { User } from "./terminal.ts";

/** What the provider says of itself; whole logins are in `e2e/system/tunnel-login.test.ts`. */
let metadata: Record<string, unknown>;
let server: Server;
let signer: ProviderSigner;
let stop: AbortController;
let port: number;
let told: string[];
let shown: PromiseWithResolvers<string>;
const user: User = {
  isThere: true,
  tell: (line) => {
    told.push(line);
    shown.resolve(line);
  },
  ask: () => Promise.reject(new Error("nothing is asked for")),
};

beforeEach(async () => {
  told = [];
  shown = Promise.withResolvers();
  stop = new AbortController();
  port = await freePort();
  server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(metadata));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  metadata = { issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token` };
  signer = {
    ...{ name: "company", authUrl: issuer, clientId: "tunneler", scopes: ["profile", "openid"] },
    ...{ audience: "network", targetToken: "ACCESS" },
  };
});

afterEach(async () => {
  server.close();
  server.closeAllConnections();
  await once(server, "close");
});

const login = (more: { isDevice?: boolean; limitMs?: number } = {}) =>
  loginAtProvider(signer, { isDevice: false, user, signal: stop.signal, port, ...more });

/** The address that the user was told. */
async function address(): Promise<URL> {
  const line = await shown.promise;
  return new URL(line.slice(line.indexOf("http")));
}

test("the address asks for a code for this program, with a proof key, and for the scopes and audience of the signer", async () => {
  const failure = login().catch((error: unknown) => error);
  const { origin, pathname, searchParams } = await address();
  stop.abort(new Error("SIGTERM was received"));
  expect(await failure).toBe(stop.signal.reason);
  expect(origin + pathname).toBe(metadata.authorization_endpoint);
  expect(Object.fromEntries(searchParams)).toEqual({
    ...{ client_id: "tunneler", response_type: "code", code_challenge_method: "S256", audience: "network" },
    ...{ redirect_uri: `http://localhost:${port}/auth/callback`, scope: "openid profile" },
    ...{ code_challenge: expect.stringMatching(/^[\w-]{43}$/), state: expect.any(String), nonce: expect.any(String) },
  });
});

test("a login that the user does not finish is given up, and the port is free again", async () => {
  await expect(login({ limitMs: 200 })).rejects.toThrow(
    `the login at ${signer.authUrl} (signer company) failed: the user did not log in in time`,
  );
  await expect(login({ limitMs: 200 })).rejects.toThrow("the user did not log in in time");
});

test("what the provider refuses is told; answers to other logins are not taken", async () => {
  const failure = login().catch((error: unknown) => String(error));
  const state = (await address()).searchParams.get("state") ?? "";
  const back = async (query: Record<string, string>, path = "/auth/callback") =>
    (await fetch(`http://127.0.0.1:${port}${path}?${new URLSearchParams(query)}`)).status;
  expect(await back({ error: "access_denied", state: "guessed" })).toBe(404);
  expect(await back({ error: "access_denied" })).toBe(404);
  expect(await back({ error: "access_denied", state }, "/elsewhere")).toBe(404);
  expect(await back({ error: "access_denied", error_description: "no such group", state })).toBe(400);
  expect(await failure).toContain("access_denied: no such group");
});

test("a port that another program has is named", async () => {
  const other = createServer().listen(port, "127.0.0.1");
  await once(other, "listening");
  await expect(login()).rejects.toThrow(`port ${port} cannot be had`);
  other.close();
});

test("a provider without a device flow is told", async () => {
  await expect(login({ isDevice: true })).rejects.toThrow("it offers no login with a code; leave --device out");
});

test("a provider that says it is another one is not trusted", async () => {
  metadata = { ...metadata, issuer: "https://else.example" };
  await expect(login()).rejects.toThrow("issuer");
  expect(told).toEqual([]);
});

test("a provider of another machine needs TLS", async () => {
  signer = { ...signer, authUrl: "http://idp.example" };
  await expect(login()).rejects.toThrow("HTTPS");
  expect(told).toEqual([]);
});
