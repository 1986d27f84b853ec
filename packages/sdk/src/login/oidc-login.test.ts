import { createKeyPair, type Identity, silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ApiSession } from "../api-session.ts";
import { TinyController } from "../testing/tiny-controller.ts";
import type { KeptSession, SessionStore } from "./kept-session.ts";
import type { LoginCredentials, LoginResult } from "./login.ts";
import { type SecondFactorCallbacks, SecondFactors } from "./second-factors.ts";

let controller: TinyController;
let credentials: LoginCredentials;
let sessions: ApiSession[];
let tokens: string[];
let replaced: number;

beforeEach(async () => {
  const authority = await TestAuthority.create();
  const identity = await authority.identity("localhost");
  credentials = { kind: "certificate", identity };
  controller = await TinyController.start(identity);
  sessions = [];
  tokens = [];
  replaced = 0;
});

afterEach(async () => {
  for (const session of sessions) await session.close();
  await controller.close();
});

function start(factors: SecondFactorCallbacks = {}): ApiSession {
  const session = new ApiSession({
    ...{ controllerUrls: [controller.url], credentials, configTypes: ["all"], log: silentLogger },
    factors: new SecondFactors(factors),
    onToken: (token) => tokens.push(token),
    onReplaced: () => {
      replaced++;
    },
  });
  sessions.push(session);
  return session;
}

/** Paths of the requests since the last look. */
const asked = (): string[] => {
  const lines = controller.asked.splice(0).map((line) => line.split(" ", 2).join(" "));
  // Asked beside everything else.
  return lines.filter((line) => line !== "GET /controllers");
};

it("logs in with a certificate where OpenID Connect is announced, and its calls carry the access token", async () => {
  const session = start();
  const login = await session.login();
  expect(login).toMatchObject({ kind: "oidc", identityId: "i", identityName: "me" });
  await session.identity();
  expect(asked()).toEqual([
    "GET /version",
    "POST /oidc/authorize",
    "POST /oidc/login/cert",
    "GET /oidc/authorize/callback",
    "POST /oidc/oauth/token",
    "GET /current-identity",
  ]);
});

it("logs in the old way where it is not announced, and does not guess when the controller does not answer", async () => {
  controller.capabilities = [];
  const session = start();
  expect(await session.login()).toMatchObject({ kind: "legacy", token: "legacy" });
  Object.assign(controller, { capabilities: ["OIDC_AUTH"], oidcPath: "" });
  expect(await start().login()).toMatchObject({ kind: "legacy" });
  // In a cluster of OpenZiti 1.6 only these sessions are known to all controllers.
  controller.capabilities = ["OIDC_AUTH", "HA_CONTROLLER"];
  expect(await start().login()).toMatchObject({ kind: "oidc" });
  controller.versionStatus = 503;
  await expect(start().login()).rejects.toMatchObject({ code: "CONTROLLER_UNREACHABLE" });
});

it("goes on with new tokens of the same session when the access token has ended, however many calls find out", async () => {
  const session = start();
  const first = await session.login();
  controller.expireTokens();
  asked();
  await Promise.all([session.identity(), session.identity(), session.identity()]);
  expect(asked().filter((line) => line === "POST /oidc/oauth/token")).toHaveLength(1);
  const second = await session.login();
  expect([second.token === first.token, tokens, replaced]).toEqual([false, [second.token], 0]);
});

it("renews the tokens before they end", async () => {
  controller.accessSeconds = 2;
  const session = start();
  const first = await session.login();
  await expect.poll(() => tokens.length, { timeout: 5_000 }).toBeGreaterThan(0);
  expect((await session.login()).token).not.toBe(first.token);
  expect(replaced).toBe(0);
});

it("logs in again when the session has ended", async () => {
  const session = start();
  await session.login();
  controller.endSessions();
  asked();
  await session.identity();
  expect([asked().filter((line) => line === "POST /oidc/login/cert").length, replaced, tokens]).toEqual([1, 1, []]);
});

it("asks for a one-time code, and again when it was wrong", async () => {
  controller.code = "123456";
  const codes = ["000000", "123456"];
  const queries: object[] = [];
  const session = start({
    oneTimeCode: async (query) => {
      queries.push(query);
      return codes.shift() ?? "";
    },
  });
  await session.login();
  expect(queries).toEqual([
    { minLength: 6, maxLength: 8, isRepeated: false },
    { minLength: 6, maxLength: 8, isRepeated: true },
  ]);
});

it("is refused by a provider that shows its login page again", async () => {
  controller.refusesByPage = true;
  await expect(start().login()).rejects.toMatchObject({ code: "CREDENTIALS_REFUSED" });
});

it("ends a login after three wrong codes", async () => {
  controller.code = "123456";
  const login = start({ oneTimeCode: async () => "000000" }).login();
  await expect(login).rejects.toMatchObject({ code: "SECOND_FACTOR_REFUSED" });
  expect(asked().filter((line) => line === "POST /oidc/login/totp")).toHaveLength(3);
});

it("says what is missing when nobody can give a second factor", async () => {
  controller.code = "123456";
  await expect(start().login()).rejects.toMatchObject({
    code: "SECOND_FACTOR_REQUIRED",
    message: expect.stringContaining("callback oneTimeCode"),
  });
  controller.isEnrolled = false;
  const login = start({ oneTimeCode: async () => "123456" }).login();
  await expect(login).rejects.toMatchObject({ message: expect.stringContaining("no authenticator app") });
});

it("sends a token of another provider with the login and with every call", async () => {
  controller.otherToken = "of-another";
  controller.code = "123456";
  const signers: unknown[] = [];
  const session = start({
    oneTimeCode: async () => "123456",
    externalToken: async ({ signerId, authUrl }) => {
      signers.push([signerId, authUrl]);
      return "of-another";
    },
  });
  await session.login();
  controller.asked.length = 0;
  await session.identity();
  const calls = controller.asked.filter((line) => !line.startsWith("GET /controllers"));
  expect(calls).toEqual([expect.stringMatching(/^GET \/current-identity access-\S+ of-another$/)]);
  expect(signers).toEqual([["signer", "https://other"]]);
});

it.each([
  ["the state of another login", (redirect: URL) => withParameter(redirect, "state", "other")],
  ["a redirect elsewhere", (redirect: URL) => new URL(redirect.search, "http://localhost.evil:20314/auth/callback")],
])("takes no code with %s", async (what, forge) => {
  controller.forge = forge;
  await expect(start().login()).rejects.toMatchObject({ message: expect.stringContaining(what) });
  expect(asked()).not.toContain("POST /oidc/oauth/token");
});

it("takes no tokens of another login", async () => {
  controller.nonce = "other";
  const login = start().login();
  await expect(login).rejects.toMatchObject({ message: expect.stringContaining("the id token of another login") });
});

it("ends its session when it is closed", async () => {
  const session = start();
  await session.login();
  await session.close();
  expect(asked().at(-1)).toBe("POST /oidc/revoke");
});

it("ends a session whose login was under way when it was closed", async () => {
  const session = start();
  const login = session.login();
  await session.close();
  await login;
  expect(asked().at(-1)).toBe("POST /oidc/revoke");
});

/** Keeps sessions in memory, as a program may in a file. */
class MemoryStore implements SessionStore {
  session: KeptSession | undefined;
  problem: Error | undefined;

  async read(): Promise<KeptSession | undefined> {
    return this.session;
  }

  async write(session: KeptSession | undefined): Promise<void> {
    if (this.problem !== undefined) throw this.problem;
    this.session = session;
  }
}

describe("a session that is kept", () => {
  const RESUMED = ["GET /version", "POST /oidc/oauth/token"];
  let store: MemoryStore;
  let given: number;

  beforeEach(() => {
    store = new MemoryStore();
    given = 0;
    const token = async () => {
      given++;
      return "of-another";
    };
    const { caPem } = (credentials as { identity: Identity }).identity;
    credentials = { kind: "external", token, store, caPem };
    controller.capabilities = ["OIDC_AUTH", "OIDC_AUTH_WITH_CSR"];
  });

  /** A run of the program, from its login to its end. */
  async function run(): Promise<LoginResult> {
    const session = start();
    const login = await session.login();
    await session.close();
    return login;
  }

  it("goes on in the next run without a token, with the certificate that it is bound to", async () => {
    const first = await run();
    expect(asked()).not.toContain("POST /oidc/revoke");
    const kept = store.session;
    expect(kept).toMatchObject({ identityId: "i", identityName: "me", bound: { certPem: first.identity.certPem } });
    const second = await run();
    expect([asked(), given]).toEqual([RESUMED, 1]);
    expect(second).toMatchObject({ identityName: "me", identity: { certPem: first.identity.certPem } });
    expect(second.token).not.toBe(first.token);
    // The token counted once: the next is kept.
    expect(store.session?.refreshToken).not.toBe(kept?.refreshToken);
    await run();
    expect([asked(), given]).toEqual([RESUMED, 1]);
  });

  it("is kept with each next token", async () => {
    const session = start();
    await session.login();
    const first = store.session;
    controller.expireTokens();
    await session.identity();
    expect(store.session).toEqual({ ...first, refreshToken: expect.not.stringMatching(first?.refreshToken ?? "") });
  });

  it("is replaced by a login when it has ended", async () => {
    await run();
    controller.endSessions();
    await run();
    expect(given).toBe(2);
    await run();
    expect(given).toBe(2);
  });

  it("is not tried again once this program gave it up", async () => {
    await run();
    const session = start();
    await session.login();
    expect(given).toBe(1);
    controller.refuseCalls = true;
    await expect(session.identity()).rejects.toMatchObject({ status: 401 });
    expect(given).toBe(2);
  });

  it("stays when the controller cannot be asked", async () => {
    await run();
    controller.versionStatus = 503;
    const kept = store.session;
    await expect(start().login()).rejects.toMatchObject({ code: "CONTROLLER_UNREACHABLE" });
    expect([store.session, given]).toEqual([kept, 1]);
  });

  it("with a key of something else is no session", async () => {
    await run();
    const { keyPem } = await createKeyPair();
    if (store.session?.bound !== undefined) {
      store.session = { ...store.session, bound: { ...store.session.bound, keyPem } };
    }
    await run();
    expect(given).toBe(2);
  });

  it("that cannot be written does not keep anybody out", async () => {
    store.problem = new Error("the disk is full");
    expect(await run()).toMatchObject({ identityName: "me" });
  });

  it("is none where calls need tokens of other providers, too", async () => {
    controller.otherToken = "second";
    const session = start({ externalToken: async () => "second" });
    await session.login();
    expect(store.session).toBeUndefined();
    await session.close();
    expect(asked().at(-1)).toBe("POST /oidc/revoke");
  });
});

function withParameter(url: URL, name: string, value: string): URL {
  url.searchParams.set(name, value);
  return url;
}
