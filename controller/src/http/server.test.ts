import { once } from "node:events";
import { apiError, fieldError, NO_LIMIT, notFound } from "@sallyport/api";
import { afterEach, describe, expect, test } from "vitest";
import { startTestApi, type TestApi, type TestHandlers, testSession } from "./testing.ts";

const started: TestApi[] = [];
afterEach(async () => {
  for (const api of started.splice(0)) await api.close();
});

async function start(handlers: TestHandlers, more: Partial<Parameters<typeof startTestApi>[0]> = {}): Promise<TestApi> {
  const sessions = [
    testSession("admin", { isAdmin: true }),
    testSession("full"),
    testSession("partial", { isAdmin: true, isFullyAuthenticated: false }),
  ];
  const api = await startTestApi({ handlers, sessions, ...more });
  started.push(api);
  return api;
}

const CLOSE = "Connection: close\r\n";
const get = (path: string, headers = "") => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${CLOSE}${headers}\r\n`;
const send = (method: string, path: string, body: string, headers = "Content-Type: application/json\r\n") =>
  `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${CLOSE}${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

/** Status line, header lines in order without the date, and the body. */
function split(response: string): {
  status: number;
  headers: string[];
  header: (name: string) => string[];
  body: string;
} {
  const end = response.indexOf("\r\n\r\n");
  const [statusLine = "", ...headers] = response.slice(0, end).split("\r\n");
  return {
    status: Number(statusLine.split(" ")[1]),
    headers: headers.filter((line) => !/^date:/i.test(line)),
    header: (name) =>
      headers.flatMap((line) => (line.toLowerCase().startsWith(`${name}: `) ? [line.slice(name.length + 2)] : [])),
    body: response.slice(end + 4),
  };
}
const json = (response: string) => JSON.parse(split(response).body);

const version = {
  apiVersions: { edge: { v1: { apiBaseUrls: ["https://localhost:1/edge/client/v1"], path: "/edge/client/v1" } } },
  buildDate: "2026-01-01T00:00:00Z",
  capabilities: [],
  revision: "x",
  runtimeVersion: "node",
  version: "v1.6.20",
};
const at = "2026-01-02T03:04:05.678Z";
const entity = (id: string) => ({
  _links: { self: { href: `./x/${id}` } },
  createdAt: at,
  updatedAt: at,
  id,
  tags: {},
});

describe("raw answers", () => {
  test("a detail has exactly these headers and bytes", async () => {
    const api = await start({ client: { listVersion: async () => ({ data: version }) } });
    const answer = split(await api.exchange(get("/edge/client/v1/version")));
    expect(answer.headers).toEqual([
      "server: sallyport-controller/v1.6.20",
      "ziti-instance-id: instance-1",
      "content-type: application/json",
      `content-length: ${Buffer.byteLength(answer.body)}`,
      "Connection: close",
    ]);
    expect(answer.body).toBe(JSON.stringify({ data: version, meta: {} }));
  });

  test("an enrollment answers with the one content type that SDKs compare literally", async () => {
    const bodies: unknown[] = [];
    const api = await start({
      client: {
        enroll: async ({ body, query }) => {
          bodies.push({ ...query, ...body });
          return { data: { cert: "PEM" } };
        },
      },
    });
    const pem = "-----BEGIN CERTIFICATE REQUEST-----\nMA==\n-----END CERTIFICATE REQUEST-----\n";
    const path = "/edge/client/v1/enroll?method=ott&token=5d2a0ba5-5f0c-4b3b-8e51-0f35d0a1c6a1";
    for (const type of ["Content-Type: application/x-pem-file\r\n", "Content-Type: text/plain\r\n", ""]) {
      const answer = split(await api.exchange(send("POST", path, pem, type)));
      expect(answer.status).toBe(200);
      expect(answer.header("content-type")).toEqual(["application/json"]);
      expect(answer.body).toBe('{"data":{"cert":"PEM"},"meta":{}}');
    }
    await api.exchange(send("POST", path, JSON.stringify({ certCsr: "a", serverCertCsr: "b", other: 1 })));
    await api.exchange(send("POST", "/edge/client/v1/enroll?method=ca", "", ""));
    const query = { method: "ott", token: "5d2a0ba5-5f0c-4b3b-8e51-0f35d0a1c6a1" };
    expect(bodies).toEqual([
      { ...query, text: pem },
      { ...query, text: pem },
      { ...query, text: pem },
      { ...query, json: { certCsr: "a", serverCertCsr: "b" } },
      { method: "ca", text: "" },
    ]);
    expect(JSON.stringify(api.logged)).not.toContain("5d2a0ba5");
  });

  test("the certificate store is base64 with its transfer encoding, whatever the caller accepts of the two", async () => {
    const api = await start({ client: { listWellKnownCas: async () => ({ body: "MIIB" }) } });
    for (const accept of ["", "Accept: application/pkcs7-mime, application/json\r\n", "Accept: */*\r\n"]) {
      const answer = split(await api.exchange(get("/.well-known/est/cacerts", accept)));
      expect(answer.header("content-type")).toEqual(["application/pkcs7-mime"]);
      expect(answer.header("content-transfer-encoding")).toEqual(["base64"]);
      expect(answer.body).toBe("MIIB");
    }
  });

  test("a list reports paging; everything is a number that no client's integer overflows at", async () => {
    const api = await start({
      management: { listIdentityTypes: async () => ({ data: [], totalCount: 7, filterableFields: ["id"] }) },
    });
    const path = "/edge/management/v1/identity-types";
    const headers = "zt-session: admin\r\n";
    const first = split(await api.exchange(get(path, headers)));
    expect(first.body).toBe(
      '{"data":[],"meta":{"filterableFields":["id"],"pagination":{"limit":10,"offset":0,"totalCount":7}}}',
    );
    expect(first.header("expiration-seconds")).toEqual(["1800"]);
    expect(first.header("expires-at")).toEqual(["2026-01-02 15:04:05.123 +0000 UTC"]);
    const all = json(await api.exchange(get(`${path}?filter=limit+none&offset=3`, headers)));
    expect(all.meta.pagination).toEqual({ limit: NO_LIMIT, offset: 3, totalCount: 7 });
  });

  test("a creation answers 201 with a link, a change the empty envelope", async () => {
    const seen: unknown[] = [];
    const api = await start({
      management: {
        createService: async ({ body }) => {
          seen.push(body);
          return { id: "a.-b" };
        },
        patchService: async ({ body, params }) => void seen.push(body, params),
      },
    });
    const body = '{"name":"s","encryptionRequired":true,"configs":null,"tags":{"a":null},"unknown":{"x":1}}';
    const created = split(
      await api.exchange(
        send(
          "POST",
          "/edge/management/v1/services",
          body,
          "zt-session: admin\r\nContent-Type: application/json; charset=utf-8\r\n",
        ),
      ),
    );
    expect(created.status).toBe(201);
    expect(created.body).toBe('{"data":{"_links":{"self":{"href":"./services/a.-b"}},"id":"a.-b"},"meta":{}}');
    const patched = split(
      await api.exchange(
        send(
          "PATCH",
          "/edge/management/v1/services/-.x%2Fy",
          '{"name":null,"roleAttributes":[]}',
          "svc-session: admin\r\nContent-Type: application/json\r\n",
        ),
      ),
    );
    expect([patched.status, patched.body]).toEqual([200, '{"data":{},"meta":{}}']);
    expect(seen).toEqual([
      {
        name: "s",
        encryptionRequired: true,
        configs: [],
        roleAttributes: [],
        maxIdleTimeMillis: 0,
        tags: { a: null },
        terminatorStrategy: "",
      },
      { roleAttributes: [] },
      { id: "-.x/y" },
    ]);
  });

  test("authentication returns the token under both header names and looks at no session", async () => {
    const sessions: unknown[] = [];
    const data = {
      ...entity("s1"),
      authQueries: [],
      authenticatorId: "a",
      cachedLastActivityAt: at,
      configTypes: [],
      expirationSeconds: 1800,
      expiresAt: at,
      identity: { _links: {}, entity: "identities", id: "i", name: "n" },
      identityId: "i",
      ipAddress: "127.0.0.1",
      isCertExtendable: false,
      isMfaComplete: false,
      isMfaRequired: false,
      lastActivityAt: at,
      token: "new-token",
    };
    const api = await start({
      management: {
        authenticate: async ({ session, request }) => {
          sessions.push(session, request.sessionToken, request.bearerTokens);
          return { data };
        },
      },
    });
    const twice =
      "zt-session: admin\r\nAuthorization: Bearer \r\nAuthorization: Bearer a.b.c\r\nContent-Type: application/json\r\n";
    const answer = split(
      await api.exchange(send("POST", "/edge/management/v1/authenticate?method=password", "{}", twice)),
    );
    expect(answer.status).toBe(200);
    expect(answer.header("zt-session")).toEqual(["new-token"]);
    expect(answer.header("svc-session")).toEqual(["new-token"]);
    expect(answer.header("expiration-seconds")).toEqual(["1800"]);
    expect(answer.header("expires-at")).toEqual(["2026-01-02 03:04:05.678 +0000 UTC"]);
    expect(sessions).toEqual([undefined, undefined, ["a.b.c"]]);
    const bad = json(await api.exchange(send("POST", "/edge/management/v1/authenticate?method=magic", "{}")));
    expect(bad.error).toMatchObject({ code: "COULD_NOT_VALIDATE", cause: { field: "method", value: "magic" } });
  });
});

describe("paths", () => {
  test.each([
    "/",
    "/version",
    "/edge/client/v1/version",
    "/edge/client/v1",
    "/edge/client/v1/",
    "/edge/v1/version",
    "/edge/v1",
    "/edge/management/v1/version/",
  ])("%s is the version document", async (path) => {
    const handler = async () => ({ data: version });
    const handlers = { listVersion: handler, listRoot: handler };
    const api = await start({ client: handlers, management: handlers });
    expect(split(await api.exchange(get(path))).status).toBe(200);
  });

  test("a path without a known root is the Client API's", async () => {
    const api = await start({ client: { listServices: async () => ({ data: [], totalCount: 0 }) } });
    expect(split(await api.exchange(get("/services?configTypes=all", "zt-session: full\r\n"))).status).toBe(200);
  });

  test("an unknown path is 404, a known one with another method 405 with the methods it has", async () => {
    const api = await start({});
    const missing = split(await api.exchange(get("/edge/management/v1/nothing")));
    expect(missing.status).toBe(404);
    expect(JSON.parse(missing.body)).toEqual({
      error: {
        code: "NOT_FOUND",
        message: "The resource requested was not found or is no longer available",
        requestId: expect.stringMatching(/^[A-Za-z0-9.-]{9}$/),
        cause: { code: "UNHANDLED", message: "path /edge/management/v1/nothing was not found" },
      },
      meta: { apiEnrollmentVersion: "0.0.1", apiVersion: "0.0.1" },
    });
    const refused = split(await api.exchange(send("POST", "/edge/management/v1/summary", "{}")));
    expect(refused.status).toBe(405);
    expect(refused.header("allow")).toEqual(["GET"]);
    expect(JSON.parse(refused.body).error).toMatchObject({
      code: "METHOD_NOT_ALLOWED",
      cause: { code: "UNHANDLED", message: "method POST is not allowed, but [GET] are" },
    });
    expect(split(await api.exchange(get("/edge/client/v1/%zz"))).status).toBe(404);
    expect(split(await api.exchange(get("/edge/client/v1/services/a%00", "zt-session: full\r\n"))).status).toBe(404);
  });
});

describe("auth rules", () => {
  const handlers: TestHandlers = {
    client: {
      deleteCurrentAPISession: async () => {},
      listServices: async () => ({ data: [], totalCount: 0 }),
      listExternalJwtSigners: async () => ({ data: [], totalCount: 0 }),
    },
    management: { listServices: async () => ({ data: [], totalCount: 0 }) },
  };
  test.each([
    ["GET", "/edge/client/v1/external-jwt-signers", { none: 200, unknown: 200, partial: 200, full: 200, admin: 200 }],
    ["DELETE", "/edge/client/v1/current-api-session", { none: 401, unknown: 401, partial: 200, full: 200, admin: 200 }],
    ["GET", "/edge/client/v1/services", { none: 401, unknown: 401, partial: 401, full: 200, admin: 200 }],
    ["GET", "/edge/management/v1/services", { none: 401, unknown: 401, partial: 401, full: 401, admin: 200 }],
  ])("%s %s", async (method, path, expected) => {
    const api = await start(handlers);
    for (const [token, status] of Object.entries(expected)) {
      for (const header of ["zt-session", "svc-session"]) {
        const session = token === "none" ? "" : `${header}: ${token}\r\n`;
        const answer = await api.exchange(`${method} ${path} HTTP/1.1\r\nHost: x\r\n${CLOSE}${session}\r\n`);
        expect([token, split(answer).status]).toEqual([token, status]);
        if (status === 401) expect(json(answer).error).toMatchObject({ code: "UNAUTHORIZED" });
      }
    }
  });

  test("a caller without a session is refused before its body is read or its type looked at", async () => {
    const api = await start({});
    const socket = await api.open();
    const head =
      "POST /edge/management/v1/services HTTP/1.1\r\nHost: x\r\nContent-Type: text/html\r\nContent-Length: 1000\r\n\r\n";
    socket.write(head);
    const [first] = (await once(socket, "data")) as [Buffer];
    expect(first.toString()).toMatch(/^HTTP\/1\.1 401 /);
    socket.destroy();
  });
});

describe("bad input", () => {
  const admin = "zt-session: admin\r\nContent-Type: application/json\r\n";
  const services = "/edge/management/v1/services";

  test.each([
    ["{", "COULD_NOT_PARSE_BODY", { code: "UNHANDLED" }],
    ['{"password":"hunter2"', "COULD_NOT_PARSE_BODY", { code: "UNHANDLED" }],
    ["[]", "COULD_NOT_PARSE_BODY", { message: "body in body must be object, not array" }],
    [`{"tags":${"[".repeat(200)}`, "COULD_NOT_PARSE_BODY", { message: "the JSON is nested more than 100 deep" }],
    [
      '{"name":1,"encryptionRequired":true}',
      "COULD_NOT_PARSE_BODY",
      { message: "name in body must be string, not number" },
    ],
    ["", "COULD_NOT_VALIDATE", { field: "body", reason: "body in body is required" }],
    ["null", "COULD_NOT_VALIDATE", { field: "encryptionRequired", reason: "encryptionRequired in body is required" }],
    [
      '{"name":"\\u0000","encryptionRequired":true}',
      "COULD_NOT_VALIDATE",
      { field: "body", reason: "text may not hold the character U+0000" },
    ],
    [
      '{"name":"\\ud800 half","encryptionRequired":true}',
      "COULD_NOT_VALIDATE",
      { field: "body", reason: "text may not hold half a surrogate pair" },
    ],
    [
      '{"encryptionRequired":true}',
      "COULD_NOT_VALIDATE",
      { field: "name", reason: "name in body is required", value: "" },
    ],
    [
      '{"name":null,"encryptionRequired":true}',
      "COULD_NOT_VALIDATE",
      { field: "name", reason: "name in body is required" },
    ],
  ])("%s answers 400 %s", async (body, code, cause) => {
    const api = await start({});
    const answer = await api.exchange(send("POST", services, body, admin));
    expect(split(answer).status).toBe(400);
    expect(json(answer).error).toMatchObject({ code, cause });
    expect(answer + JSON.stringify(api.logged)).not.toContain("hunter2");
    expect(api.logged).toHaveLength(1);
    expect(api.logged[0]).toMatchObject({
      level: "info",
      fields: { peer: expect.stringMatching(/^127\.0\.0\.1:\d+$/) },
    });
  });

  test.each([
    [
      '{"name":"p","semantic":"Some","type":"Dial"}',
      { field: "semantic", reason: "semantic in body should be one of [AllOf AnyOf]", value: "Some" },
    ],
    ['{"name":"p","semantic":"AllOf"}', { field: "type", reason: "type in body is required" }],
  ])("%s names the field", async (body, cause) => {
    const api = await start({});
    const { error } = json(await api.exchange(send("POST", "/edge/management/v1/service-policies", body, admin)));
    expect(error).toMatchObject({ code: "COULD_NOT_VALIDATE", cause });
  });

  test("numbers and lengths have bounds; lengths count code points, passwords are not repeated", async () => {
    const api = await start({});
    const cost = await api.exchange(
      send("POST", "/edge/management/v1/edge-routers", '{"name":"r","cost":65536}', admin),
    );
    expect(json(cost).error.cause).toEqual({
      field: "cost",
      reason: "cost in body should be less than or equal to 65535",
      value: "65536",
    });
    const path = "/edge/client/v1/authenticate?method=password";
    const short = await api.exchange(
      send("POST", path, '{"username":"\u{1F600}\u{1F600}\u{1F600}\u{1F600}","password":"1234"}'),
    );
    expect(json(short).error.cause).toEqual({
      field: "password",
      reason: "password in body should be at least 5 chars long",
      value: "",
    });
  });

  test.each([
    ["limit=x", "INVALID_PAGINATION"],
    ["offset=1.5", "INVALID_PAGINATION"],
    ["filter=name%20~%201", "INVALID_FILTER"],
    ["sort=a+b+c", "INVALID_SORT_IDENTIFIER"],
    ["roleSemantic=SomeOf", "COULD_NOT_VALIDATE"],
    ["roleFilter=%23a%00", "COULD_NOT_VALIDATE"],
    ["filter=name%20=%20%22%00%22", "INVALID_FILTER"],
  ])("?%s answers 400 %s", async (query, code) => {
    const api = await start({});
    const answer = await api.exchange(get(`${services}?${query}`, "zt-session: admin\r\n"));
    expect([split(answer).status, json(answer).error.code]).toEqual([400, code]);
  });

  test("media types: 415 for a body, 406 for an answer, neither for a GET that says JSON", async () => {
    const api = await start({ management: { listServices: async () => ({ data: [], totalCount: 0 }) } });
    const untyped = await api.exchange(send("POST", services, "{}", "zt-session: admin\r\n"));
    expect(split(untyped).status).toBe(415);
    expect(json(untyped).error).toMatchObject({
      code: "COULD_NOT_VALIDATE",
      cause: {
        field: "Content-Type",
        reason: 'unsupported media type "application/octet-stream", only [application/json] are allowed',
      },
    });
    const html = await api.exchange(get(services, "zt-session: admin\r\nAccept: text/html\r\n"));
    expect(split(html).status).toBe(406);
    expect(split(await api.exchange(get(services, admin))).status).toBe(200);
    const csr = send(
      "POST",
      "/edge/client/v1/enroll?token=x",
      "x",
      "Accept: text/html\r\nContent-Type: text/plain\r\n",
    );
    expect(json(await api.exchange(csr)).error.code).toBe("UNSUPPORTED_MEDIA");
  });

  test("a body over 1 MiB is 413 by its announced length, before authentication, and by what is read", async () => {
    const api = await start({});
    const announced = await api.exchange(
      "POST /edge/management/v1/services HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\n\r\n",
    );
    expect(split(announced).status).toBe(413);
    expect(split(announced).body).toBe(
      '{"code":"REQUEST_ENTITY_TOO_LARGE","message":"The request body exceeds the maximum accepted size"}',
    );
    const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
    const streamed = await api.exchange(
      `POST ${services} HTTP/1.1\r\nHost: x\r\n${admin}Transfer-Encoding: chunked\r\n\r\n${chunk.repeat(17)}0\r\n\r\n`,
    );
    expect(split(streamed).status).toBe(413);
    expect(split(streamed).header("ziti-instance-id")).toEqual(["instance-1"]);
    expect(api.logged.map(({ fields }) => fields.code)).toEqual([
      "REQUEST_ENTITY_TOO_LARGE",
      "REQUEST_ENTITY_TOO_LARGE",
    ]);
  });

  test("what is not HTTP, and headers without end, are answered and logged once", async () => {
    const api = await start({});
    expect(split(await api.exchange("\u0016\u0003garbage\r\n\r\n")).status).toBe(400);
    expect(split(await api.exchange(`GET / HTTP/1.1\r\nHost: x\r\nx: ${"y".repeat(70_000)}\r\n\r\n`)).status).toBe(431);
    expect(api.logged.map(({ msg }) => msg)).toEqual(["request could not be read", "request could not be read"]);
  });

  test("a request that does not arrive in time is 408", async () => {
    const api = await start({}, { limits: { headersTimeoutMs: 200, requestTimeoutMs: 400 } });
    expect(split(await api.exchange("GET / HTTP/1.1\r\nHost: x\r\n")).status).toBe(408);
  });
});

describe("failures of handlers", () => {
  const path = "/edge/client/v1/services/a";
  const session = "zt-session: full\r\n";
  test("an API error is sent with its cause", async () => {
    const api = await start({
      client: {
        detailService: async () => Promise.reject(notFound("service", "a")),
        listSessions: async () => Promise.reject(fieldError("f", "bad", "v".repeat(100))),
        listServices: async () =>
          Promise.reject(apiError("SERVER_TOO_MANY_REQUESTS", undefined, { headers: { "retry-after": "2" } })),
      },
    });
    const missing = await api.exchange(get(path, session));
    expect(split(missing).status).toBe(404);
    expect(json(missing).error.cause).toEqual({ code: "UNHANDLED", message: "service with id a not found" });
    const field = json(await api.exchange(get("/edge/client/v1/sessions", session)));
    expect(field.error.cause).toEqual({ field: "f", reason: "bad", value: `${"v".repeat(64)}...` });
    const busy = split(await api.exchange(get("/edge/client/v1/services", session)));
    expect([busy.status, busy.header("retry-after")]).toEqual([429, ["2"]]);
  });

  test("anything else is 500, logged with its stack, and the next request is answered", async () => {
    const api = await start({
      client: {
        detailService: async () => Promise.reject(new TypeError("boom")),
        listVersion: async () => ({ data: version }),
      },
    });
    expect(split(await api.exchange(get(path, session))).status).toBe(500);
    expect(api.logged[0]).toMatchObject({ level: "error", fields: { code: "UNHANDLED", err: { message: "boom" } } });
    expect(split(await api.exchange(get("/version"))).status).toBe(200);
  });

  test("one that takes too long is 503 and told to stop", async () => {
    let aborted = false;
    const api = await start(
      {
        client: {
          detailService: ({ request }) =>
            new Promise((_resolve, reject) => {
              request.signal.addEventListener("abort", () => {
                aborted = true;
                reject(new Error("stopped"));
              });
            }),
        },
      },
      { limits: { handlerTimeoutMs: 50 } },
    );
    const answer = await api.exchange(get(path, session));
    expect([split(answer).status, json(answer).error.code, aborted]).toEqual([503, "TIMEOUT", true]);
  });

  test("an answer that breaks the contract is found", async () => {
    const extra = { ...version, secret: "x" };
    const api = await start({ client: { listVersion: async () => ({ data: extra }) } });
    expect(json(await api.exchange(get("/version"))).error.cause.message).toContain('Unrecognized key: "secret"');
  });
});

describe("connections", () => {
  test("are kept alive and closed when idle; pipelined requests are answered in order", async () => {
    const api = await start(
      { client: { listVersion: async () => ({ data: version }) } },
      { limits: { keepAliveTimeoutMs: 300 } },
    );
    const request = "GET /version HTTP/1.1\r\nHost: x\r\n\r\n";
    const all = await api.exchange(request.repeat(30));
    expect(all.match(/HTTP\/1\.1 200 OK\r\n/g)).toHaveLength(30);
  });

  test("a caller that sends nothing, leaves in the middle of a body, or does not read is let go without harm", async () => {
    const big = { ...version, revision: "x".repeat(8_000_000) };
    const api = await start(
      { client: { listVersion: async () => ({ data: version }), listRoot: async () => ({ data: big }) } },
      { limits: { headersTimeoutMs: 200, requestTimeoutMs: 1_000, socketTimeoutMs: 500 } },
    );
    const silent = await api.open();
    silent.on("data", () => {});
    const leaver = await api.open();
    const head = "Host: x\r\nzt-session: admin\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    leaver.write(`POST /edge/management/v1/services HTTP/1.1\r\n${head}`, () => leaver.destroy());
    const deaf = await api.open();
    deaf.on("error", () => {});
    deaf.pause();
    deaf.write("GET /edge/client/v1 HTTP/1.1\r\nHost: x\r\n\r\n");
    await once(silent, "close");
    await expect.poll(() => api.api.connections, { timeout: 10_000 }).toBe(0);
    deaf.destroy();
    expect(split(await api.exchange(get("/version"))).status).toBe(200);
    expect(api.logged.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("close waits for the request in hand and no longer than its limit", async () => {
    let release: () => void = () => {};
    let running = 0;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const api = await start(
      {
        client: {
          listVersion: async () => {
            running++;
            await held;
            return { data: version };
          },
          listRoot: () => {
            running++;
            return new Promise(() => {});
          },
        },
      },
      { limits: { closeTimeoutMs: 300, keepAliveTimeoutMs: 60_000 } },
    );
    const idle = await api.open();
    const answered = api.exchange("GET /version HTTP/1.1\r\nHost: x\r\n\r\n");
    const stuck = api.exchange("GET /edge/client/v1/ HTTP/1.1\r\nHost: x\r\n\r\n");
    await expect.poll(() => running).toBe(2);
    const closing = api.api.close();
    await once(idle, "close");
    release();
    expect(split(await answered).status).toBe(200);
    expect(await stuck).toBe("");
    await closing;
  });

  test("certificates are asked for; what was presented reaches the handler", async () => {
    const seen: string[][] = [];
    const api = await start({
      client: {
        listVersion: async ({ request }) => {
          seen.push(request.peerCertificates.map(({ subject }) => subject));
          return { data: version };
        },
      },
    });
    await api.exchange(get("/version"));
    const { certPem, keyPem } = await api.authority.issue({ commonName: "client-1" });
    await api.exchange(get("/version"), { cert: certPem, key: keyPem });
    expect(seen[0]).toEqual([]);
    expect(seen[1]?.[0]).toBe("CN=client-1");
  });
});
