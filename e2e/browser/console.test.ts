import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const EXECUTABLE = process.env.SALLYPORT_CHROMIUM;

/** A web server of a console; not every one lets pages of other origins read its answers. */
async function startPages(headers: Readonly<Record<string, string>>): Promise<{ server: Server; origin: string }> {
  const server = createServer((request, response) => {
    response.writeHead(request.url === "/" ? 200 : 404, { "content-type": "text/html", ...headers });
    response.end("<!doctype html><title>console</title>");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, origin: `http://localhost:${(server.address() as AddressInfo).port}` };
}

/** What a console's page does with `fetch` alone (OpenZiti's, from 1.5 of its library): it reads codes from the address of the last redirect. */
async function logIn(page: Page, o: { controller: string; origin: string; password: string }): Promise<string> {
  const verifier = randomBytes(32).toString("base64url");
  const challenge = createHash("sha256").update(verifier).digest("base64url");
  return await page.evaluate(
    async ({ controller, origin, password, verifier, challenge }) => {
      const redirect = `${origin}/auth/callback`;
      const ask = (path: string, form?: Record<string, string>) => {
        const headers = { accept: "application/json" };
        const posted = form === undefined ? {} : { method: "POST", body: new URLSearchParams(form) };
        return fetch(`${controller}${path}`, { mode: "cors", credentials: "omit", headers, ...posted });
      };
      const query = new URLSearchParams({
        ...{ client_id: "openziti", response_type: "code", scope: "openid offline_access", state: "s", nonce: "n" },
        ...{ code_challenge: challenge, code_challenge_method: "S256", redirect_uri: redirect },
      });
      const begun = await ask(`/oidc/authorize?${query}`);
      const id = new URL(begun.url).searchParams.get("authRequestID") ?? "";
      const wrong = await ask("/oidc/login/username", { id, username: "admin", password: `${password}!` });
      const done = await ask("/oidc/login/username", { id, username: "admin", password });
      const code = new URL(done.url).searchParams.get("code") ?? "";
      const of = { client_id: "openziti", code, code_verifier: verifier, redirect_uri: redirect };
      const tokens = await ask("/oidc/oauth/token", { grant_type: "authorization_code", ...of });
      const { access_token } = (await tokens.json()) as { access_token: string };
      const authorization = `Bearer ${access_token}`;
      const own = await fetch(`${controller}/edge/management/v1/current-identity`, { headers: { authorization } });
      const { data } = (await own.json()) as { data: { name: string } };
      return `${wrong.status} ${data.name}`;
    },
    { ...o, verifier, challenge },
  );
}

describe.skipIf(EXECUTABLE === undefined)("a console's page in Chromium, on a web server of its own", () => {
  const folder = makeScratch("console");
  const servers: Server[] = [];
  let network: Network;
  let browser: Browser;
  let readable: string;
  let unreadable: string;

  beforeAll(async () => {
    const pages = [await startPages({ "access-control-allow-origin": "*" }), await startPages({})];
    servers.push(...pages.map(({ server }) => server));
    [readable = "", unreadable = ""] = pages.map(({ origin }) => origin);
    const allowed = `  web:\n    allowedOrigins: ["${readable}", "${unreadable}"]`;
    network = await startNetwork(join(folder, "network"), {
      login: "oidc",
      controllerSettings: (text) => text.replace(/^api:$/m, `api:\n${allowed}`),
    });
    browser = await chromium.launch({ executablePath: EXECUTABLE ?? "", chromiumSandbox: false });
  });

  afterAll(async () => {
    await browser?.close();
    for (const server of servers) server.close();
    await network?.stop();
    removeScratch(folder);
  });

  const open = async (origin: string): Promise<Page> => {
    const context = await browser.newContext({ ignoreHTTPSErrors: true });
    const page = await context.newPage();
    await page.goto(`${origin}/`);
    return page;
  };
  const parts = (origin: string) => ({
    controller: `https://localhost:${network.port}`,
    origin,
    password: network.adminPassword,
  });

  it("logs in by OIDC and uses the API", async () => {
    expect(await logIn(await open(readable), parts(readable))).toBe("401 Default Admin");
  });

  // The last redirect leads from the controller to the page's own origin: for the browser, a page of no origin reads it.
  it("cannot read the code when its web server does not let other origins read", async () => {
    await expect(logIn(await open(unreadable), parts(unreadable))).rejects.toThrow(/failed to fetch/i);
  });
});
