/**
 * Requests as today's clients send them, byte for byte, and what each of them needs of the answers. Sources: the SDKs of OpenZiti for C (`library/oidc.c`),
 * Go (`edge-apis/clients_shared.go`) and the JVM (`Authentication.kt`), and its console (`ziti-oidc.service.ts`).
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { authPolicy } from "../api/testing/auth-policy.ts";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import { type Certificate, certificateIdentity, claimsOf, passwordIdentity } from "./testing/oidc-client.ts";

const ORIGIN = "https://console.example";
const VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE = createHash("sha256").update(VERIFIER).digest("base64url");

let t: TestController;
let device: Certificate & { readonly id: string };
beforeAll(async () => {
  t = await startTestController({ allowedOrigins: [ORIGIN] });
  device = await certificateIdentity(t, "device");
  await passwordIdentity(t, "anna");
});
afterAll(() => t.close());

interface Recorded {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly json: any;
}

/** Sends a request on a connection of its own. `Host` and the end of the connection are added, everything else goes out as written. */
async function send(line: string, headers: readonly string[], body = "", certificate?: Certificate): Promise<Recorded> {
  const socket = connect({
    ...{ host: "127.0.0.1", port: t.port, servername: "localhost", ca: t.pki.caBundlePem },
    ...(certificate && { cert: certificate.cert, key: certificate.key }),
  });
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  const all = [`${line} HTTP/1.1`, `Host: localhost:${t.port}`, ...headers, "Connection: close", "", body];
  socket.write(all.join("\r\n"));
  await once(socket, "close");
  const text = Buffer.concat(chunks).toString();
  const end = text.indexOf("\r\n\r\n");
  const [status = "", ...lines] = text.slice(0, end).split("\r\n");
  const answered = new Map(
    lines.map((each) => [each.split(": ")[0]?.toLowerCase() ?? "", each.replace(/^[^:]*: /, "")]),
  );
  const found = text.slice(end + 4);
  const isJson = answered.get("content-type") === "application/json";
  return {
    status: Number(status.split(" ")[1]),
    headers: answered,
    body: found,
    json: isJson ? JSON.parse(found) : undefined,
  };
}

const FORM = "Content-Type: application/x-www-form-urlencoded";
const JSON_ONLY = "Accept: application/json";
const length = (body: string) => `Content-Length: ${Buffer.byteLength(body)}`;
const form = (line: string, body: string, headers: readonly string[] = [], certificate?: Certificate) =>
  send(line, [JSON_ONLY, FORM, ...headers, length(body)], body, certificate);
const location = ({ status, headers, body }: Recorded) => {
  const found = headers.get("location");
  if (found === undefined) throw new Error(`no redirect, but ${status}: ${body}`);
  return found;
};
const pathOf = (url: string) => url.replace(/^https:\/\/[^/]+/, "");
const own = () => `https://localhost:${t.port}`;

test("the SDK for C logs in with its certificate, and refreshes", async () => {
  const config = (await send("GET /oidc/.well-known/openid-configuration", [JSON_ONLY], "", device)).json;
  expect(config.authorization_endpoint).toBe(`${own()}/oidc/authorize`);
  const back = "http%3A%2F%2Flocalhost%3A20314%2Fauth%2Fcallback";
  const query = `client_id=openziti&scope=openid%20offline_access&response_type=code&redirect_uri=${back}&code_challenge=${CHALLENGE}&code_challenge_method=S256&state=c3RhdGU&audience=openziti`;
  for (const none of [[], ["Content-Length: 0"]]) {
    const begun = await send(
      `POST ${pathOf(config.authorization_endpoint)}?${query}`,
      [JSON_ONLY, ...none],
      "",
      device,
    );
    expect(Math.floor(begun.status / 100)).toBe(3);
  }
  const begun = await send(`POST ${pathOf(config.authorization_endpoint)}?${query}`, [JSON_ONLY], "", device);
  // It takes all that follows the name, up to `&`, and formats it into 256 bytes.
  const id = location(begun).split("authRequestID=")[1]?.split("&")[0] ?? "";
  expect(id).toMatch(/^[\w-]{1,64}$/);
  const info =
    '{"sdkInfo":{"type":"ziti-sdk-c","version":"1.18.7","revision":"abc","branch":"main","appId":"x","appVersion":"1"},"envInfo":{"os":"Linux","osRelease":"6.1","osVersion":"#1","arch":"x86_64","hostname":"h","domain":"d"}}';
  const json = [JSON_ONLY, "Content-Type: application/json", length(info)];
  const finished = await send(`POST /oidc/login/cert?id=${id}`, json, info, device);
  expect(Math.floor(finished.status / 100)).toBe(3);
  expect(pathOf(location(finished)).length).toBeLessThan(256);
  const called = await send(`GET ${pathOf(location(finished))}`, [JSON_ONLY], "", device);
  // It posts everything behind `code=`, so that the form has a second `state`.
  const code = location(called).split("code=")[1] ?? "";
  expect(code).toMatch(/^[\w-]{43}&state=c3RhdGU$/);
  const token = `state=c3RhdGU&code=${code}&grant_type=authorization_code&code_verifier=${VERIFIER}&client_id=openziti&redirect_uri=${back}`;
  const made = await form(`POST ${pathOf(config.token_endpoint)}`, token, [], device);
  expect(made.status).toBe(200);
  // It reads the refresh token as a JWT, and holds forms of 16 KiB.
  expect(claimsOf(made.json.refresh_token).exp).toBeGreaterThan(Date.now() / 1_000);
  expect(made.json.refresh_token.length).toBeLessThanOrEqual(2_048);
  expect(claimsOf(made.json.access_token)).toMatchObject({ sub: device.id, z_sdk: { type: "ziti-sdk-c" } });
  const basic = `Authorization: Basic ${Buffer.from("openziti:").toString("base64url")}`;
  const refresh = `client_id=openziti&grant_type=refresh_token&refresh_token=${made.json.refresh_token}`;
  const renewed = await form(`POST ${pathOf(config.token_endpoint)}`, refresh, [basic], device);
  expect(renewed.json).toMatchObject({ access_token: expect.any(String), refresh_token: expect.any(String) });
});

describe("the SDK for Go, and the CLI and the tunneler with it", () => {
  const back = "http%3A%2F%2Flocalhost%3A8080%2Fauth%2Fcallback";
  const agent = "User-Agent: go-resty/2.16.5 (https://github.com/go-resty/resty)";

  test.each(["cert", "password"])(
    "log in (%s), and renew their tokens with two exchanges of one refresh token",
    async (method) => {
      const certificate = method === "cert" ? device : undefined;
      const query = `client_id=native&code_challenge=${CHALLENGE}&code_challenge_method=S256&nonce=bm9uY2U&redirect_uri=${back}&response_type=code&scope=openid+offline_access&state=c3RhdGU`;
      const begun = await send(`GET /oidc/authorize?${query}`, [agent], "", certificate);
      expect(begun.status).toBe(302);
      // It follows, and wants 200 with the header.
      const page = await send(`GET ${pathOf(location(begun))}`, [agent], "", certificate);
      expect(page.status).toBe(200);
      const id = page.headers.get("auth-request-id") ?? "";
      const credentials = method === "cert" ? "" : "&password=password&username=anna";
      const body = `configTypes=all&envArch=amd64&envDomain=&envHostname=h&envOs=linux&envOsRelease=6.1&envOsVersion=1&id=${id}${credentials}&sdkAppID=&sdkAppVersion=&sdkBranch=&sdkRevision=&sdkType=go&sdkVersion=1.7.0`;
      const finished = await send(`POST /oidc/login/${method}`, [agent, FORM, length(body)], body, certificate);
      expect(finished.status).toBe(302);
      expect(location(finished).startsWith(`${own()}/oidc/`)).toBe(true);
      const called = await send(`GET ${pathOf(location(finished))}`, [agent], "", certificate);
      expect(called.status).toBe(302);
      expect(location(called).startsWith("http://localhost:8080/auth/callback")).toBe(true);
      const target = new URL(location(called));
      expect(target.searchParams.get("state")).toBe("c3RhdGU");
      const token = `client_id=native&code=${target.searchParams.get("code")}&code_verifier=${VERIFIER}&grant_type=authorization_code&redirect_uri=${back}`;
      const made = await send("POST /oidc/oauth/token", [agent, FORM, length(token)], token, certificate);
      expect(claimsOf(made.json.id_token)).toMatchObject({
        nonce: "bm9uY2U",
        name: expect.any(String),
        sub: expect.any(String),
      });
      const exchange = async (subject: string, kind: string) => {
        const type = "urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3A";
        const body = `actor_token=&actor_token_type=&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&requested_token_type=${type}${kind}&scope=&subject_token=${subject}&subject_token_type=${type}refresh_token`;
        return send(
          "POST /oidc/oauth/token",
          ["Authorization: Basic bmF0aXZlOg==", FORM, length(body)],
          body,
          certificate,
        );
      };
      let refreshToken: string = made.json.refresh_token;
      for (let round = 0; round < 3; round++) {
        const renewed = await exchange(refreshToken, "refresh_token");
        const id = await exchange(refreshToken, "id_token");
        expect([renewed.status, id.status]).toEqual([200, 200]);
        expect(claimsOf(id.json.access_token).sub).toBe(claimsOf(renewed.json.access_token).sub);
        refreshToken = renewed.json.refresh_token;
        expect(claimsOf(refreshToken).exp).toBeGreaterThan(0);
      }
    },
  );

  test("read from the answer that a code is to be enrolled, by the header and by what is missing", async () => {
    const policy = authPolicy("codes", { secondary: { requireTotp: true } });
    await passwordIdentity(t, "emil", { authPolicyId: await t.make("auth-policies", policy) });
    const query = `client_id=native&code_challenge=${CHALLENGE}&code_challenge_method=S256&nonce=n&redirect_uri=${back}&response_type=code&scope=openid+offline_access&state=s`;
    const page = await send(`GET ${pathOf(location(await send(`GET /oidc/authorize?${query}`, [agent])))}`, [agent]);
    const id = page.headers.get("auth-request-id") ?? "";
    const body = `id=${id}&password=password&username=emil`;
    const open = await send("POST /oidc/login/password", [agent, FORM, length(body)], body);
    expect([open.status, open.headers.get("totp-required")]).toEqual([200, "true"]);
    expect(open.json.authQueries[0]).not.toHaveProperty("isTotpEnrolled");
    const begin = `{"id":"${id}"}`;
    const started = await send(
      "POST /oidc/login/totp/enroll",
      [agent, "Content-Type: application/json", length(begin)],
      begin,
    );
    expect([started.status, typeof started.json.provisioningUrl]).toEqual([201, "string"]);
  });
});

test("the SDK for the JVM logs in by posting nothing to where it was sent", async () => {
  const config = (await send("GET /oidc/.well-known/openid-configuration", [], "", device)).json;
  const back = "http%3A%2F%2Flocalhost%3A8080%2Fauth%2Fcallback";
  const asked = `response_type=code&client_id=openziti&redirect_uri=${back}&scope=openid+offline_access&state=c3RhdGU&code_challenge=${CHALLENGE}&code_challenge_method=S256`;
  const begun = await form(`POST ${pathOf(config.authorization_endpoint)}`, asked, [], device);
  const login = new URL(location(begun), own());
  const finished = await form(`POST ${login.pathname}${login.search}`, "", [], device);
  // It makes a URI of the header alone.
  expect(() => new URL(location(finished))).not.toThrow();
  const called = await send(`GET ${pathOf(location(finished))}`, [JSON_ONLY], "", device);
  const code = new URL(location(called)).searchParams.get("code");
  const token = `grant_type=authorization_code&code=${code}&client_id=openziti&redirect_uri=${back}&code_verifier=${VERIFIER}`;
  const made = await form(`POST ${pathOf(config.token_endpoint)}`, token, [], device);
  const basic = `Authorization: Basic ${Buffer.from("openziti:").toString("base64url")}`;
  const refresh = `client_id=openziti&grant_type=refresh_token&refresh_token=${made.json.refresh_token}`;
  const headers = [FORM, basic, length(refresh)];
  const renewed = await send(`POST ${pathOf(config.token_endpoint)}`, headers, refresh, device);
  expect(renewed.json.expires_in).toBe(1_800);
});

test("the console logs in from a page of another origin, refreshes and revokes", async () => {
  const origin = `Origin: ${ORIGIN}`;
  const back = `${encodeURIComponent(ORIGIN)}%2Fauth%2Fcallback`;
  const query = `client_id=openziti&response_type=code&scope=openid+offline_access&state=c3RhdGU&nonce=bm9uY2U&code_challenge=${CHALLENGE}&code_challenge_method=S256&redirect_uri=${back}`;
  const begun = await send(`GET /oidc/authorize?${query}`, [JSON_ONLY, origin]);
  expect(begun.headers.get("access-control-allow-origin")).toBe(ORIGIN);
  const page = await send(`GET ${location(begun)}`, [JSON_ONLY, origin]);
  expect([page.status, page.headers.get("access-control-allow-origin")]).toEqual([200, ORIGIN]);
  const id = new URL(location(begun), own()).searchParams.get("authRequestID") ?? "";
  const wrong = await form("POST /oidc/login/username", `id=${id}&username=anna&password=wrong`, [origin]);
  expect([wrong.status, wrong.headers.get("access-control-allow-origin")]).toEqual([401, ORIGIN]);
  const finished = await form("POST /oidc/login/username", `id=${id}&username=anna&password=password`, [origin]);
  const called = await send(`GET ${pathOf(location(finished))}`, [JSON_ONLY, origin]);
  expect(location(called).startsWith(`${ORIGIN}/auth/callback?`)).toBe(true);
  const code = new URL(location(called)).searchParams.get("code");
  const token = `grant_type=authorization_code&client_id=openziti&code=${code}&code_verifier=${VERIFIER}&redirect_uri=${back}`;
  const made = await form("POST /oidc/oauth/token", token, [origin]);
  expect(claimsOf(made.json.access_token).exp).toBeGreaterThan(0);
  const refresh = `grant_type=refresh_token&client_id=openziti&refresh_token=${made.json.refresh_token}`;
  const renewed = await form("POST /oidc/oauth/token", refresh, [origin]);
  expect(renewed.status).toBe(200);
  const revoke = `token=${renewed.json.refresh_token}&token_type_hint=refresh_token&client_id=openziti`;
  expect((await form("POST /oidc/oauth/revoke", revoke, [origin])).status).toBe(200);
  const again = `grant_type=refresh_token&client_id=openziti&refresh_token=${renewed.json.refresh_token}`;
  expect((await form("POST /oidc/oauth/token", again, [origin])).status).toBe(400);
});
