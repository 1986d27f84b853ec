import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { authPolicy } from "../../controller/src/api/testing/auth-policy.ts";
import { oneTimeCode } from "../network/login/one-time-code.ts";
import { type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const EXECUTABLE = process.env.SALLYPORT_CHROMIUM;
const PASSWORD = "quite-a-long-password";

/** A client program: it waits for the redirect of its login on a loopback port, and gets tokens for the code. */
class Program {
  readonly #server: Server;
  readonly #verifier = randomBytes(32).toString("base64url");
  readonly #origin: string;
  /** Queries of the redirects that arrived. */
  readonly arrived: URLSearchParams[] = [];

  constructor(server: Server, origin: string) {
    this.#server = server;
    this.#origin = origin;
    server.listen(0, "127.0.0.1");
    server.on("request", (request, response) => {
      const url = new URL(request.url ?? "/", "http://localhost");
      if (url.pathname === "/auth/callback") this.arrived.push(url.searchParams);
      response.setHeader("content-type", "text/html");
      response.end("<!doctype html><title>back</title><h1>Back in the program</h1>");
    });
  }

  static async start(origin: string): Promise<Program> {
    const server = createServer();
    const program = new Program(server, origin);
    await once(server, "listening");
    return program;
  }

  get redirectUri(): string {
    return `http://localhost:${(this.#server.address() as AddressInfo).port}/auth/callback`;
  }

  /** Where a login begins. */
  loginUrl(redirectUri = this.redirectUri): string {
    const challenge = createHash("sha256").update(this.#verifier).digest("base64url");
    const query = new URLSearchParams({
      client_id: "openziti",
      response_type: "code",
      scope: "openid offline_access",
      state: "the-state",
      nonce: "the-nonce",
      code_challenge: challenge,
      code_challenge_method: "S256",
      redirect_uri: redirectUri,
    });
    return `${this.#origin}/oidc/authorize?${query}`;
  }

  /** The name of the identity that the code of a redirect logs in. */
  async identityOf(context: BrowserContext, query: URLSearchParams, redirectUri = this.redirectUri): Promise<string> {
    expect(query.get("state")).toBe("the-state");
    const form = {
      grant_type: "authorization_code",
      client_id: "openziti",
      code: query.get("code") ?? "",
      code_verifier: this.#verifier,
      redirect_uri: redirectUri,
    };
    const tokens = await context.request.post(`${this.#origin}/oidc/oauth/token`, { form });
    expect([tokens.status(), await tokens.text()]).toEqual([200, expect.stringContaining("access_token")]);
    const { access_token } = (await tokens.json()) as { access_token: string };
    const answer = await context.request.get(`${this.#origin}/edge/client/v1/current-identity`, {
      headers: { authorization: `Bearer ${access_token}` },
    });
    return ((await answer.json()) as { data: { name: string } }).data.name;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

describe.skipIf(EXECUTABLE === undefined)("the login page in Chromium", () => {
  const folder = makeScratch("browser");
  let network: Network;
  let browser: Browser;
  let context: BrowserContext;
  let program: Program;
  /** What the browser wrote to its console: violations of a policy among others. */
  const written: string[] = [];

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"), { login: "oidc" });
    program = await Program.start(`https://localhost:${network.port}`);
    browser = await chromium.launch({ executablePath: EXECUTABLE ?? "", chromiumSandbox: false });
    context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 400, height: 800 } });
    context.on("console", (message) => written.push(message.text()));
    context.on("weberror", (error) => written.push(String(error.error())));
  });

  afterAll(async () => {
    await browser?.close();
    program?.stop();
    await network?.stop();
    removeScratch(folder);
  });

  const makeUser = async (name: string, more: { authPolicyId?: string } = {}): Promise<void> => {
    const { management } = network;
    const { data } = await management.createIdentity({ body: { name, type: "User", isAdmin: false, ...more } });
    const body = { method: "updb", identityId: data.id, username: name, password: PASSWORD } as const;
    await management.createAuthenticator({ body });
  };

  /** A policy under which passwords log in, and one-time codes are required. */
  const requireCodes = async (name: string): Promise<string> => {
    const body = authPolicy(name, { secondary: { requireTotp: true } });
    const { data } = await network.management.createAuthPolicy({ body });
    return data.id;
  };

  const open = async (redirectUri?: string, of = context): Promise<Page> => {
    const page = await of.newPage();
    await page.goto(program.loginUrl(redirectUri));
    expect(await page.title()).toContain("Sign in");
    return page;
  };

  const signIn = async (page: Page, username: string, password = PASSWORD): Promise<void> => {
    await page.getByLabel("User name").fill(username);
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
  };

  const returned = async (page: Page): Promise<URLSearchParams> => {
    await page.getByRole("heading", { name: "Back in the program" }).waitFor();
    return program.arrived.at(-1)!;
  };

  const violations = () =>
    written.filter((text) => /content.security.policy|refused to|permissions.policy/i.test(text));

  it("signs in with a password, after a wrong one", async () => {
    await makeUser("alice");
    const page = await open();
    expect(await page.textContent("main")).toContain(`localhost:${new URL(program.redirectUri).port}`);
    await signIn(page, "alice", "wrong");
    await page.getByRole("alert").waitFor();
    expect(program.arrived).toEqual([]);
    await signIn(page, "alice");
    expect(await program.identityOf(context, await returned(page))).toBe("alice");
    expect(violations()).toEqual([]);
  });

  it("sets up one-time codes during a login, and asks for a code at the next one", async () => {
    await makeUser("robert", { authPolicyId: await requireCodes("codes") });
    const first = await open();
    await signIn(first, "robert");
    await first.getByRole("heading", { name: "Set up one-time codes" }).waitFor();
    expect(
      await first.locator("img.qr").evaluate((image: { naturalWidth: number }) => image.naturalWidth),
    ).toBeGreaterThan(100);
    expect(await first.locator(".codes li").count()).toBe(20);
    const secret = (await first.locator(".secret").textContent()) ?? "";
    const enter = async (page: Page, label: string, code: string, button: string): Promise<void> => {
      await page.getByLabel(label, { exact: true }).fill(code);
      await page.getByRole("button", { name: button, exact: true }).click();
    };
    const wrong = oneTimeCode(secret) === "000000" ? "111111" : "000000";
    await first.getByLabel("I have stored the recovery codes.").check();
    await enter(first, "Code that the app shows", wrong, "Finish and sign in");
    await first.getByRole("alert").waitFor();
    expect(await first.locator(".secret").textContent()).toBe(secret);
    await first.getByLabel("I have stored the recovery codes.").check();
    await enter(first, "Code that the app shows", oneTimeCode(secret), "Finish and sign in");
    expect(await program.identityOf(context, await returned(first))).toBe("robert");

    const second = await open();
    await signIn(second, "robert");
    await second.getByRole("heading", { name: "Enter your code" }).waitFor();
    await enter(second, "Code", wrong, "Continue");
    await second.getByRole("alert").waitFor();
    await enter(second, "Code", oneTimeCode(secret), "Continue");
    expect(await program.identityOf(context, await returned(second))).toBe("robert");
    expect(violations()).toEqual([]);
  });

  it("works without scripts, and shows a link to a program that has a scheme of its own", async () => {
    await makeUser("carol");
    const plain = await browser.newContext({ ignoreHTTPSErrors: true, javaScriptEnabled: false });
    try {
      const page = await open("openziti://auth/callback", plain);
      await signIn(page, "carol");
      const link = page.getByRole("link", { name: "Return to your program" });
      const target = new URL((await link.getAttribute("href")) ?? "");
      expect(`${target.protocol}//${target.host}${target.pathname}`).toBe("openziti://auth/callback");
      expect(await program.identityOf(plain, target.searchParams, "openziti://auth/callback")).toBe("carol");
    } finally {
      await plain.close();
    }
  });

  it("runs no script, not even one that somebody puts into the page", async () => {
    const page = await open();
    expect(await page.locator("script").count()).toBe(0);
    await expect(page.addScriptTag({ content: "document.title = 'ran'" })).rejects.toThrow(/content security policy/i);
    await expect(page.addStyleTag({ content: "body { display: none }" })).rejects.toThrow(/content security policy/i);
    expect(await page.title()).toContain("Sign in");
  });
});
