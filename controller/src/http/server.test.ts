import { once } from "node:events";
import { apiError, fieldError, NO_LIMIT, notFound } from "@sallyport/api";
import { untilAborted } from "@sallyport/async";
import { afterEach, describe, expect, test } from "vitest";
import {
  CLOSE,
  get,
  json,
  send,
  split,
  startTestApi,
  type TestApi,
  type TestHandlers,
  testSession,
  version,
} from "./testing/test-api.ts";

const started: TestApi[] = [];
afterEach(async () => {
  for (const api of started.splice(0)) await api.close();
});

async function start(handlers: TestHandlers, more: Partial<Parameters<typeof startTestApi>[0]> = {}): Promise<TestApi> {
  const api = await startTestApi({ handlers, ...more });
  started.push(api);
  return api;
}

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
    "//",
    "//version",
    "//edge///client/v1//version",
    "/./version",
    "/edge/client/v1/services/../version?a=//",
    "/edge/management/v1/.//version/.",
    "/../edge/management/../client/v1/version",
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

  test("rules, parameters and the log see the path without empty and dot segments", async () => {
    const seen: unknown[] = [];
    const api = await start({
      management: {
        detailService: async ({ params, request }) => {
          seen.push(params, request.path);
          return Promise.reject(notFound("service", params.id));
        },
      },
    });
    const path = "/edge//management/./v1//services/x/..//a%2F..%2Fb/";
    expect(split(await api.exchange(get(path, "zt-session: full\r\n"))).status).toBe(401);
    expect(split(await api.exchange(get("/edge/client/v1/../../management/v1/services"))).status).toBe(401);
    expect(seen).toEqual([]);
    expect(split(await api.exchange(get(path, "zt-session: admin\r\n"))).status).toBe(404);
    expect(seen).toEqual([{ id: "a/../b" }, "/services/{id}"]);
    expect(api.logged.map(({ fields }) => fields.path)).toEqual([
      "/edge/management/v1/services/a%2F..%2Fb",
      "/edge/management/v1/services",
      "/edge/management/v1/services/a%2F..%2Fb",
    ]);
    expect(split(await api.exchange(get("/edge/client/v1/%2e%2e/version"))).status).toBe(404);
    const missing = await api.exchange(get("/fabric//v1/./nothing"));
    expect(json(missing)).toMatchObject({
      error: { cause: { message: "path /fabric/v1/nothing was not found" } },
      meta: { apiVersion: "1.0.0" },
    });
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

test("a request is not begun when its caller has left before: it may have been repeated elsewhere", async () => {
  let begun = 0;
  let isWaiting = false;
  const api = await start(
    {
      client: {
        deleteSession: async () => {
          begun++;
          throw notFound("service", "a");
        },
      },
    },
    {
      authenticate: async ({ signal }) => {
        isWaiting = true;
        await untilAborted(signal);
        return testSession("full");
      },
    },
  );
  const socket = await api.open();
  socket.write("DELETE /edge/client/v1/sessions/a HTTP/1.1\r\nHost: x\r\nzt-session: full\r\n\r\n");
  await expect.poll(() => isWaiting).toBe(true);
  socket.destroy();
  await expect.poll(() => api.logged.map(({ fields }) => fields.code)).toContain("COULD_NOT_PARSE_BODY");
  expect(begun).toBe(0);
});

describe("failures of handlers", () => {
  const path = "/edge/client/v1/services/a";
  const session = "zt-session: full\r\n";
  test("an API error is sent with its cause", async () => {
    const api = await start({
      client: {
        detailService: async () => Promise.reject(notFound("service", "a")),
        listSessions: async () => Promise.reject(fieldError("f", "bad", "v".repeat(100))),
        listServiceTerminators: async () => Promise.reject(apiError("TIMEOUT")),
        listServices: async () =>
          Promise.reject(apiError("SERVER_TOO_MANY_REQUESTS", undefined, { headers: { "retry-after": "7" } })),
      },
    });
    const missing = await api.exchange(get(path, session));
    expect(split(missing).status).toBe(404);
    expect(json(missing).error.cause).toEqual({ code: "UNHANDLED", message: "service with id a not found" });
    const field = json(await api.exchange(get("/edge/client/v1/sessions", session)));
    expect(field.error.cause).toEqual({ field: "f", reason: "bad", value: `${"v".repeat(64)}...` });
    const busy = split(await api.exchange(get("/edge/client/v1/services", session)));
    expect([busy.status, busy.header("retry-after")]).toEqual([429, ["7"]]);
    // One that does not say when to come again.
    const away = split(await api.exchange(get("/edge/client/v1/services/b/terminators", session)));
    expect([away.status, away.header("retry-after")]).toEqual([503, ["2"]]);
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
