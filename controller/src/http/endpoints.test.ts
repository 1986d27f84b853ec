import { once } from "node:events";
import { apiError } from "@sallyport/api";
import { afterEach, describe, expect, test } from "vitest";
import type { Endpoint, EndpointRequest } from "./endpoints.ts";
import type { HttpLimits } from "./limits.ts";
import { CLOSE, get, send, split, startTestApi, type TestApi } from "./testing/test-api.ts";

const started: TestApi[] = [];
afterEach(async () => {
  for (const api of started.splice(0)) await api.close();
});

const FORM = "Content-Type: application/x-www-form-urlencoded\r\n";
const MAX_BODY_BYTES = 2_000;

/** A POST and a GET of one path; answers what arrived, and failures as `CODE status`. */
async function start(
  change: Partial<Endpoint> = {},
  limits: Partial<HttpLimits> = {},
): Promise<{ api: TestApi; seen: EndpointRequest[]; failures: EndpointRequest[] }> {
  const seen: EndpointRequest[] = [];
  const failures: EndpointRequest[] = [];
  const endpoint: Endpoint = {
    method: "POST",
    path: "/oidc/thing",
    media: "json-or-form",
    maxBodyBytes: MAX_BODY_BYTES,
    handle: async (request) => {
      seen.push(request);
      return { status: 302, headers: { location: "/there" } };
    },
    failed: (error, request) => {
      failures.push(request);
      return { status: error.status, body: { type: "text/plain", text: error.code } };
    },
    ...change,
  };
  const read: Endpoint = {
    ...endpoint,
    method: "GET",
    handle: async () => ({
      status: 200,
      headers: { "cache-control": "max-age=60" },
      body: { type: "text/html", text: "é" },
    }),
  };
  const api = await startTestApi({ handlers: {}, endpoints: [endpoint, read], limits });
  started.push(api);
  return { api, seen, failures };
}

describe("an endpoint", () => {
  test("answers with exactly its own headers, no instance id, and nothing for caches", async () => {
    const { api } = await start();
    expect(split(await api.exchange(send("POST", "/oidc/thing", "", "")))).toMatchObject({
      status: 302,
      headers: [
        "server: sallyport-controller/v1.6.20",
        "cache-control: no-store",
        "pragma: no-cache",
        "location: /there",
        "content-length: 0",
        "Connection: close",
      ],
      body: "",
    });
    const page = split(await api.exchange(get("/oidc/thing")));
    expect(page).toMatchObject({ status: 200, body: "é" });
    expect(page.header("content-type")).toEqual(["text/html"]);
    expect(page.header("cache-control")).toEqual(["max-age=60"]);
  });

  test("sees query and form as pairs in their order, doubled ones too, and every authorization header", async () => {
    const { api, seen } = await start();
    const headers = `${FORM}Authorization: Bearer one\r\nAuthorization: Basic eDo=\r\nAuthorization: bearer two\r\n`;
    await api.exchange(send("POST", "/oidc/thing?a=1&a=2&b&c=%2B+%C3%A9", "x=1&x=&=y&code=a.b&&z=%3D%3D", headers));
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatchObject({
      method: "POST",
      path: "/oidc/thing",
      host: "localhost",
      query: [
        ["a", "1"],
        ["a", "2"],
        ["b", ""],
        ["c", "+ é"],
      ],
      form: [
        ["x", "1"],
        ["x", ""],
        ["", "y"],
        ["code", "a.b"],
        ["z", "=="],
      ],
      json: undefined,
      authorization: ["Bearer one", "Basic eDo=", "bearer two"],
      bearerTokens: ["one", "two"],
      peerCertificates: [],
      proxied: undefined,
      remoteIp: "127.0.0.1",
    });
    await api.exchange(send("POST", "/oidc/thing", '{"id":"1"}', "Content-Type: application/json; charset=utf-8\r\n"));
    expect(seen[1]).toMatchObject({ query: [], form: undefined, json: { id: "1" } });
  });

  test.each([
    ["a form type with nothing", FORM, "", 302],
    ["no type and nothing", "", "", 302],
    ["another type and nothing", "Content-Type: text/plain\r\n", "", 302],
    ["a form with parameters of its type", `${FORM.trim()}; charset=utf-8\r\n`, "a=1", 302],
    ["another type", "Content-Type: text/plain\r\n", "a=1", 415],
    ["no type", "", "a=1", 415],
    ["bad percent-encoding", FORM, "a=%G1", 400],
    ["half an escape", FORM, "a=%", 400],
    ["bytes that are no UTF-8", FORM, "a=%ff", 400],
    ["U+0000 in a form", FORM, "a=%00", 400],
    ["JSON that is none", "Content-Type: application/json\r\n", "{", 400],
    ["U+0000 in JSON", "Content-Type: application/json\r\n", '{"a":"\\u0000"}', 400],
  ])("takes or refuses a body: %s", async (_name, headers, body, status) => {
    const { api, failures } = await start();
    expect(split(await api.exchange(send("POST", "/oidc/thing", body, headers))).status).toBe(status);
    expect(failures).toHaveLength(status === 302 ? 0 : 1);
  });

  test("that takes forms only refuses JSON; one that takes none ignores what comes", async () => {
    const { api } = await start({ media: "form" });
    expect(split(await api.exchange(send("POST", "/oidc/thing", "{}")))).toMatchObject({
      status: 415,
      body: "UNSUPPORTED_MEDIA_TYPE",
    });
    const { api: other, seen } = await start({ media: "none" });
    expect(split(await other.exchange(send("POST", "/oidc/thing", "%", FORM))).status).toBe(302);
    expect(seen[0]).toMatchObject({ form: undefined, json: undefined });
  });

  test("refuses a query that is wrongly encoded", async () => {
    const { api } = await start();
    for (const query of ["%", "a=%zz", "a=%c3", "a=%00", "%ff=1"]) {
      expect(split(await api.exchange(send("POST", `/oidc/thing?${query}`, "", ""))).status, query).toBe(400);
    }
  });

  test("refuses a long body in its own form before the body came, and one that only turns out to be long", async () => {
    const { api, seen } = await start();
    const head = `POST /oidc/thing HTTP/1.1\r\nHost: x\r\n${FORM}`;
    const announced = await api.open();
    const [answer] = await Promise.all([
      once(announced, "data"),
      announced.write(`${head}Content-Length: ${MAX_BODY_BYTES + 1}\r\n\r\n`),
    ]);
    expect(split(String(answer))).toMatchObject({ status: 413, body: "REQUEST_ENTITY_TOO_LARGE" });
    announced.destroy();
    const chunk = `${MAX_BODY_BYTES.toString(16)}\r\n${"a".repeat(MAX_BODY_BYTES)}\r\n1\r\na\r\n0\r\n\r\n`;
    const chunked = await api.exchange(`${head}${CLOSE}Transfer-Encoding: chunked\r\n\r\n${chunk}`);
    expect(split(chunked).status).toBe(413);
    expect(seen).toEqual([]);
    const fits = send("POST", "/oidc/thing", "a".repeat(MAX_BODY_BYTES), FORM);
    expect(split(await api.exchange(fits)).status).toBe(302);
  });

  test("counts for the memory of bodies under way", async () => {
    const { api } = await start({}, { maxBytesUnderWay: 4 * 1_000, maxBytesUnderWayPerCaller: 1_000 });
    const answer = split(await api.exchange(send("POST", "/oidc/thing", "a".repeat(1_001), FORM)));
    expect(answer).toMatchObject({ status: 429, body: "SERVER_TOO_MANY_REQUESTS" });
    expect(answer.header("retry-after")).toEqual(["1"]);
  });

  test("has 405 for other methods, and 404 beside it", async () => {
    const { api } = await start();
    const refused = split(await api.exchange(send("PUT", "/oidc/thing", "", "")));
    expect(refused).toMatchObject({ status: 405, body: "METHOD_NOT_ALLOWED" });
    expect(refused.header("allow")).toEqual(["POST, GET"]);
    expect(split(await api.exchange(get("/oidc/other"))).status).toBe(404);
  });

  test("has the time limit of operations, and its work is told to end", async () => {
    let reason: unknown;
    const { api } = await start(
      {
        handle: ({ signal }) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener("abort", () => {
              reason = signal.reason;
              reject(signal.reason);
            });
          }),
      },
      { handlerTimeoutMs: 50 },
    );
    expect(split(await api.exchange(send("POST", "/oidc/thing", "", "")))).toMatchObject({
      status: 503,
      body: "TIMEOUT",
    });
    expect(reason).toMatchObject({ code: "TIMEOUT" });
  });

  test("shows errors of the API as they are, anything else as a bare 500; the log holds no query", async () => {
    const errors: Error[] = [apiError("INVALID_AUTH", undefined, { detail: "why" }), new Error("a hidden reason")];
    const { api } = await start({
      handle: async () => {
        throw errors.shift() ?? new Error("none left");
      },
    });
    const request = send("POST", "/oidc/thing?code=hidden-code", "", "");
    expect(split(await api.exchange(request))).toMatchObject({ status: 401, body: "INVALID_AUTH" });
    expect(split(await api.exchange(request))).toMatchObject({ status: 500, body: "UNHANDLED" });
    expect(api.logged).toMatchObject([
      { level: "info", fields: { path: "/oidc/thing", status: 401, detail: "why" } },
      { level: "error", fields: { path: "/oidc/thing", status: 500 } },
    ]);
    expect(JSON.stringify(api.logged)).not.toContain("hidden-code");
  });
});
