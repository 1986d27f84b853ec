import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { MAX_ANSWER_BYTES } from "./provider-http.ts";
import {
  loginAtProvider,
  MAX_CODE_CHARACTERS,
  ProviderLoginError,
  type ProviderLoginOptions,
  type ProviderSigner,
} from "./provider-login.ts";
import type { User } from "./terminal.ts";

/** What the provider says of itself; whole logins are in `e2e/system/tunnel-login.test.ts`. */
let metadata: Record<string, unknown>;
/** Its answers to requests for codes, and then for tokens: an object, or text that is none. */
let started: Record<string, unknown>;
let polls: ({ status: number; body: unknown; headers?: Record<string, string> } | "hang up")[];
/** In place of the metadata. */
let forged: { status: number; body: string; headers?: Record<string, string> } | undefined;
let server: Server;
let signer: ProviderSigner;
let stop: AbortController;
let port: number;
let told: string[];
let shown: PromiseWithResolvers<string>;
let asked: string[];
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
  asked = [];
  forged = undefined;
  polls = [];
  shown = Promise.withResolvers();
  stop = new AbortController();
  port = await freePort();
  server = createServer(async (request, response) => {
    const path = request.url ?? "";
    asked.push(path);
    await text(request);
    const json = { "content-type": "application/json" };
    if (path === "/device") response.writeHead(200, json).end(JSON.stringify(started));
    else if (path === "/token") {
      const poll = polls.shift() ?? { status: 400, body: { error: "authorization_pending" } };
      if (poll === "hang up") response.destroy();
      else response.writeHead(poll.status, { ...json, ...poll.headers }).end(JSON.stringify(poll.body));
    } else if (forged !== undefined) response.writeHead(forged.status, { ...json, ...forged.headers }).end(forged.body);
    else response.writeHead(200, json).end(JSON.stringify(metadata));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  metadata = {
    ...{ issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token` },
    device_authorization_endpoint: `${issuer}/device`,
  };
  started = {
    device_code: "d",
    user_code: "ABCD",
    verification_uri: `${issuer}/activate`,
    expires_in: 300,
    interval: 1,
  };
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

const login = (more: Partial<ProviderLoginOptions> = {}) =>
  loginAtProvider(signer, { isDevice: false, user, file: "me.json", signal: stop.signal, port, ...more });

/** The address that the user was told. */
async function address(): Promise<URL> {
  const line = await shown.promise;
  return new URL(line.slice(line.indexOf("http")));
}

describe("by browser", () => {
  test("the address asks for a code for this program, with a proof key, and for the scopes and audience of the signer", async () => {
    const failure = login().catch((error: unknown) => error);
    const { origin, pathname, searchParams } = await address();
    stop.abort(new Error("SIGTERM was received"));
    expect(await failure).toBe(stop.signal.reason);
    expect(told[0]).toMatch(/^To log in for me\.json, /);
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

  test("two at once come one after the other", async () => {
    const first = new AbortController();
    const one = login({ signal: first.signal }).catch((error: unknown) => error);
    const two = login({ file: "you.json" }).catch((error: unknown) => error);
    await shown.promise;
    expect(told).toHaveLength(1);
    shown = Promise.withResolvers();
    first.abort(new Error("the first is over"));
    await shown.promise;
    stop.abort(new Error("SIGTERM was received"));
    expect(await Promise.all([one, two])).toEqual([first.signal.reason, stop.signal.reason]);
    expect(told.map((line) => line.split(",")[0])).toEqual(["To log in for me.json", "To log in for you.json"]);
  });

  test("what the provider refuses is told without control characters; answers to other logins are not taken", async () => {
    const failure = login().catch((error: unknown) => String(error));
    const state = (await address()).searchParams.get("state") ?? "";
    const back = async (query: Record<string, string>, path = "/auth/callback", method = "GET") =>
      (await fetch(`http://127.0.0.1:${port}${path}?${new URLSearchParams(query)}`, { method })).status;
    expect(await back({ error: "access_denied", state: "guessed" })).toBe(404);
    expect(await back({ error: "access_denied" })).toBe(404);
    expect(await back({ error: "access_denied", state }, "/elsewhere")).toBe(404);
    // A page of another origin can post a form here.
    expect(await back({ error: "access_denied", state }, undefined, "POST")).toBe(404);
    // A target that is no address.
    expect(await back({ error: "access_denied", state }, "//")).toBe(404);
    expect(await back({ error: "access_denied", error_description: "no such\u001b[2J group", state })).toBe(400);
    expect(await failure).toContain("access_denied: no such[2J group");
  });

  test("a code of another login is not exchanged: the provider says so, with our proof key", async () => {
    polls = [{ status: 400, body: { error: "invalid_grant", error_description: "not of this login" } }];
    const failure = login().catch((error: unknown) => String(error));
    const state = (await address()).searchParams.get("state") ?? "";
    await fetch(`http://127.0.0.1:${port}/auth/callback?${new URLSearchParams({ code: "planted", state })}`);
    expect(await failure).toContain("invalid_grant: not of this login");
  });

  test.each(["127.0.0.1", "::1"])("a port that another program has at %s is named", async (host) => {
    const other = createServer().listen(port, host);
    const isThere = await once(other, "listening").then(
      () => true,
      () => false,
    );
    // A machine without IPv6 has no second address.
    if (!isThere) return expect(host).toBe("::1");
    await expect(login()).rejects.toThrow(`port ${port} of this machine`);
    expect(told).toEqual([]);
    other.close();
  });

  test.each(["file:///etc/passwd", "javascript:alert(1)", "http://idp.example/authorize"])(
    "an address such as %s is not shown",
    async (endpoint) => {
      metadata = { ...metadata, authorization_endpoint: endpoint };
      await expect(login()).rejects.toThrow(/address of its login page that is not opened|only HTTP and HTTPS/);
      expect(told).toEqual([]);
    },
  );
});

describe("a provider", () => {
  test("without a device flow is told", async () => {
    metadata = { ...metadata, device_authorization_endpoint: undefined };
    await expect(login({ isDevice: true })).rejects.toThrow("it offers no login with a code; leave --device out");
  });

  test("that says it is another one is not trusted", async () => {
    metadata = { ...metadata, issuer: "https://else.example" };
    await expect(login()).rejects.toThrow("issuer");
  });

  test("of another machine needs TLS", async () => {
    signer = { ...signer, authUrl: "http://idp.example" };
    await expect(login()).rejects.toThrow(/https/i);
  });

  test("is called by TLS only, whatever it says of itself", async () => {
    metadata = { ...metadata, device_authorization_endpoint: "http://idp.example/device" };
    await expect(login({ isDevice: true })).rejects.toThrow("it names http://idp.example: only https: is called");
  });

  test.each([
    ["a page", { status: 200, body: "<html>", headers: { "content-type": "text/html" } }, "content-type"],
    ["half an answer", { status: 200, body: '{"issuer":' }, "pars"],
    ["a list", { status: 200, body: "[]" }, "invalid response"],
    ["nothing", { status: 404, body: "" }, "404"],
    ["a redirect", { status: 302, body: "", headers: { location: "file:///etc/passwd" } }, "302"],
    ["too much", { status: 200, body: JSON.stringify({ more: "a".repeat(MAX_ANSWER_BYTES) }) }, "sent more than"],
  ])("that answers with %s ends the login", async (_what, answer, reason) => {
    forged = answer;
    const failure = await login().catch((error: unknown) => error);
    expect(failure).toMatchObject({ isUnreachable: false, message: expect.stringContaining(reason) });
    expect([asked.length, told]).toEqual([1, []]);
  });

  test.each([500, 503])("that answers %i may be asked again", async (status) => {
    forged = { status, body: "" };
    const failure = await login().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ProviderLoginError);
    expect(failure).toMatchObject({ isUnreachable: true, message: expect.stringContaining(`answered ${status}`) });
  });

  test("that does not answer may be asked again", async () => {
    signer = { ...signer, authUrl: `http://127.0.0.1:${port}` };
    const failure = await login().catch((error: unknown) => error);
    expect(failure).toMatchObject({ isUnreachable: true, message: expect.stringContaining("ECONNREFUSED") });
  });
});

describe("by a code", () => {
  const pending = { status: 400, body: { error: "authorization_pending" } };
  const granted = { status: 200, body: { access_token: "a.b.c", token_type: "Bearer", expires_in: 60 } };

  test("the user is told where to enter it; the login goes on when the provider could not be reached meanwhile", async () => {
    polls = [pending, "hang up", granted];
    started = { ...started, user_code: "AB\u001b[2J\u202eCD", interval: 0.001 };
    expect(await login({ isDevice: true })).toBe("a.b.c");
    expect(told).toEqual([
      `To log in for me.json, open ${started.verification_uri} in any browser and enter the code AB[2JCD`,
    ]);
    expect(asked.filter((path) => path === "/token")).toHaveLength(3);
  });

  test("a provider is asked once in a second at most", async () => {
    started = { ...started, interval: 0.001 };
    await expect(login({ isDevice: true, limitMs: 1_700 })).rejects.toThrow("the user did not log in in time");
    expect(asked.filter((path) => path === "/token").length).toBeLessThanOrEqual(1);
  });

  test("a provider that wants it slower is asked five seconds later", async () => {
    polls = [{ status: 400, body: { error: "slow_down" } }, granted];
    await expect(login({ isDevice: true, limitMs: 3_000 })).rejects.toThrow("the user did not log in in time");
    expect(polls.at(-1)).toEqual(granted);
  });

  test("a code that is not entered ends with its time, also when the provider goes on answering", async () => {
    started = { ...started, expires_in: 1.3 };
    await expect(login({ isDevice: true })).rejects.toThrow("the code was not entered in time");
  });

  test("what the user or the provider refuses ends it", async () => {
    polls = [{ status: 400, body: { error: "access_denied" } }];
    const failure = await login({ isDevice: true }).catch((error: unknown) => error);
    expect(failure).toMatchObject({ isUnreachable: false, message: expect.stringContaining("failed: access_denied") });
  });

  test("it ends with the program, not with the next question", async () => {
    started = { ...started, interval: 60 };
    const failure = login({ isDevice: true }).catch((error: unknown) => error);
    await shown.promise;
    stop.abort(new Error("SIGTERM was received"));
    expect(await failure).toBe(stop.signal.reason);
  }, 4_500);

  test.each([
    ["an address of another kind", { verification_uri: "file:///etc/passwd" }, "not opened"],
    ["an address without TLS", { verification_uri: "http://idp.example/" }, "not opened"],
    ["a short way of another kind", { verification_uri_complete: "data:text/html,hello" }, "not opened"],
    ["a code that is none", { user_code: "A".repeat(MAX_CODE_CHARACTERS + 1) }, "more than"],
    ["no code", { user_code: undefined }, "user_code"],
    ["a time that is none", { expires_in: -1 }, "expires_in"],
  ])("%s is not shown", async (_what, more, reason) => {
    started = { ...started, ...more };
    await expect(login({ isDevice: true })).rejects.toThrow(reason);
    expect(told).toEqual([]);
  });
});
