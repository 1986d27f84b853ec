import { apiError } from "@sallyport/api";
import { afterEach, describe, expect, test } from "vitest";
import type { Endpoint } from "./endpoints.ts";
import { CLOSE, get, send, split, startTestApi, type TestApi, version } from "./testing/test-api.ts";

const ORIGIN = "https://browzer.example.org";
const from = (origin: string) => `Origin: ${origin}\r\n`;

const AUTHORIZE: Endpoint = {
  method: "GET",
  path: "/oidc/authorize",
  media: "none",
  maxBodyBytes: 1_024,
  handle: async () => ({ status: 302, headers: { location: "/oidc/login/username" } }),
  failed: ({ status }) => ({ status }),
};

let api: TestApi | undefined;
afterEach(() => api?.close());

async function start(allowedOrigins?: readonly string[]): Promise<TestApi> {
  const listVersion = async () => ({ data: version });
  api = await startTestApi({
    handlers: {
      client: {
        listVersion,
        listServices: async () => ({ data: [], totalCount: 0 }),
        authenticate: async () => Promise.reject(apiError("INVALID_AUTH")),
      },
      management: { listVersion },
    },
    endpoints: [AUTHORIZE],
    ...(allowedOrigins === undefined ? {} : { allowedOrigins }),
  });
  return api;
}

function corsOf(answer: string): Record<string, string> {
  return Object.fromEntries(
    split(answer)
      .headers.map((line) => line.split(": ", 2) as [string, string])
      .filter(([name]) => /^(access-control|vary)/.test(name)),
  );
}

const preflight = (path: string, origin: string, method = "POST") =>
  `OPTIONS ${path} HTTP/1.1\r\nHost: localhost\r\n${CLOSE}${from(origin)}Access-Control-Request-Method: ${method}\r\nAccess-Control-Request-Headers: content-type,zt-session\r\n\r\n`;

describe("a page of an allowed origin", () => {
  test.each([
    "/edge/client/v1/authenticate",
    "/authenticate",
    "/version",
    "/edge/client/v1//services",
    "/edge/management/v1/services",
    "/fabric/v1/links",
    "/oidc/oauth/token",
  ])("is told before a request what it may send to %s", async (path) => {
    const answer = await (await start(["https://other.example", ORIGIN])).exchange(preflight(path, ORIGIN));
    expect([split(answer).status, split(answer).body]).toEqual([204, ""]);
    expect(corsOf(answer)).toEqual({
      "access-control-allow-origin": ORIGIN,
      "access-control-allow-headers": "accept, authorization, content-type, if-match, svc-session, zt-session",
      "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
      "access-control-max-age": "600",
      vary: "Origin",
    });
  });

  test("reads answers and failures, with the headers that clients need, but without credentials", async () => {
    const { exchange } = await start([ORIGIN]);
    const login = send(
      "POST",
      "/edge/client/v1/authenticate?method=password",
      '{"username":"user","password":"secret"}',
    );
    for (const [request, status] of [
      [get("/version", from(ORIGIN)), 200],
      [get("/edge/client/v1/services", `${from(ORIGIN)}zt-session: full\r\n`), 200],
      [get("/edge/client/v1/services", from(ORIGIN)), 401],
      [get("/edge/client/v1/nothing", from(ORIGIN)), 404],
      [login.replace("\r\nHost", `\r\n${from(ORIGIN)}Host`), 401],
      [
        send("POST", "/services", "", `${from(ORIGIN)}Content-Length: 2000000\r\n`).replace(
          "\r\nContent-Length: 0",
          "",
        ),
        413,
      ],
    ] as const) {
      const answer = await exchange(request);
      expect(split(answer).status).toBe(status);
      const cors = corsOf(answer);
      expect(cors).toEqual({
        "access-control-allow-origin": ORIGIN,
        "access-control-expose-headers": expect.stringMatching(/svc-session, zt-session, ziti-instance-id$/),
        vary: "Origin",
      });
    }
  });

  test("reads of a login's answers where it goes on, which factors are open, and why it failed", async () => {
    const { exchange } = await start([ORIGIN]);
    for (const [request, status] of [
      [get("/oidc/authorize?client_id=openziti", from(ORIGIN)), 302],
      [get("/oidc/nothing", from(ORIGIN)), 404],
    ] as const) {
      const answer = await exchange(request);
      expect([split(answer).status, corsOf(answer)]).toEqual([
        status,
        {
          "access-control-allow-origin": ORIGIN,
          "access-control-expose-headers": expect.stringMatching(
            /ziti-instance-id, auth-request-id, location, totp-required, www-authenticate$/,
          ),
          vary: "Origin",
        },
      ]);
    }
    expect(corsOf(await exchange(get("/oidc/authorize", from("https://evil.example"))))).toEqual({ vary: "Origin" });
    const ofApi = corsOf(await exchange(get("/oidcish", from(ORIGIN))));
    expect(ofApi["access-control-expose-headers"]).not.toContain("location");
  });

  test("is told nothing on a connection with a client certificate", async () => {
    const { exchange, authority } = await start([ORIGIN]);
    const { certPem, keyPem } = await authority.issue({ commonName: "client" });
    for (const request of [get("/version", from(ORIGIN)), preflight("/version", ORIGIN)]) {
      expect(corsOf(await exchange(request, { cert: certPem, key: keyPem }))).toEqual({ vary: "Origin" });
    }
  });
});

test("a page of another origin, and one that names none, is told nothing", async () => {
  const { exchange } = await start([ORIGIN]);
  for (const origin of ["https://evil.example", "null", `${ORIGIN}.evil.example`, "http://browzer.example.org"]) {
    expect(corsOf(await exchange(get("/version", from(origin))))).toEqual({ vary: "Origin" });
    const answer = await exchange(preflight("/version", origin));
    expect([split(answer).status, corsOf(answer)]).toEqual([405, { vary: "Origin" }]);
  }
  expect(corsOf(await exchange(get("/version")))).toEqual({ vary: "Origin" });
});

test("without a list no page is told anything", async () => {
  const { exchange } = await start();
  expect(corsOf(await exchange(get("/version", from(ORIGIN))))).toEqual({});
  const answer = await exchange(preflight("/version", ORIGIN));
  expect([split(answer).status, corsOf(answer)]).toEqual([405, {}]);
});
