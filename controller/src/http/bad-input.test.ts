import { once } from "node:events";
import { lineBounds } from "@sallyport/wire";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { readBody } from "./input.ts";
import { get, json, send, split, startTestApi, type TestApi, type TestHandlers } from "./testing/test-api.ts";

const started: TestApi[] = [];
afterEach(async () => {
  for (const api of started.splice(0)) await api.close();
});

async function start(handlers: TestHandlers, more: Partial<Parameters<typeof startTestApi>[0]> = {}): Promise<TestApi> {
  const api = await startTestApi({ handlers, ...more });
  started.push(api);
  return api;
}

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

  test("of long lists and maps one wrong item is looked at, also when a caller sends thousands", () => {
    let looks = 0;
    const wrong = z.string().refine(() => {
      looks += 1;
      return false;
    });
    const shape = z.object({ list: z.array(wrong).optional(), map: z.record(z.string(), wrong).optional() });
    const items = Array.from({ length: 20_000 }, (_, i) => `item ${i}`);
    for (const body of [{ list: items }, { map: Object.fromEntries(items.map((item) => [item, item])) }]) {
      expect(() => readBody(shape, body)).toThrow(/COULD_NOT_VALIDATE|invalid document/);
    }
    expect(looks).toBeLessThan(10);
    const nothingWrong = z.object({ list: z.array(z.string()), map: z.record(z.string(), z.string()) });
    const body = { list: items, map: Object.fromEntries(items.map((item) => [item, item])) };
    expect(readBody(nothingWrong, body)).toEqual(body);
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

  test("GHSA-q8g9-jc4c-jp6q: a body over 1 MiB is 413 by its announced length, before authentication, and by what is read", async () => {
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

  test("GHSA-q8g9-jc4c-jp6q: bodies that are under way have room for so many bytes, and the oldest that has not arrived makes room", async () => {
    const message = (more: string, path = "/edge/client/v1/authenticate?method=password") =>
      `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${more}`;
    // Callers without a session have a quarter of all.
    for (const limits of [{ maxBytesUnderWay: 6_000_000 }, { maxBytesUnderWayPerCaller: 1_500_000 }]) {
      const api = await start({}, { limits });
      const held = async (more: string, bytes = 1_000_000) => {
        const socket = await api.open();
        socket.on("error", () => {}).resume();
        socket.write(`${message(`${more}Content-Length: ${bytes}\r\n\r\n`)}{`);
        return socket;
      };
      const asked = async (more: string, path?: string) =>
        split(await api.exchange(message(`Connection: close\r\n${more}`, path))).status;
      for (const path of ["/edge/client/v1/nothing", "/edge/client/v1/version", "/metrics", undefined]) {
        const slow = await held("");
        const gone = once(slow, "close");
        const newer = await held("");
        await gone;
        expect(await asked("Content-Length: 2\r\n\r\n{}", path)).not.toBe(429);
        newer.destroy();
        await expect.poll(() => api.api.connections).toBe(0);
      }
      // Callers with a session, and administrators, have room of their own.
      const services = "/edge/management/v1/services";
      const full = await held("");
      const other = await held("", 400_000);
      expect(await asked("zt-session: admin\r\nContent-Length: 2\r\n\r\n{}", services)).toBe(400);
      expect([full.closed, other.closed]).toEqual([false, false]);
    }
  });

  test("GHSA-q8g9-jc4c-jp6q: a body that has arrived keeps its room while it is worked on; without room a request gets 429", async () => {
    let running = 0;
    const held = Promise.withResolvers<never>();
    const work = () => {
      running++;
      return held.promise;
    };
    const api = await start({ management: { createService: work } }, { limits: { maxBytesUnderWayPerCaller: 100 } });
    const body = JSON.stringify({ name: "web", encryptionRequired: true, tags: { note: "x".repeat(20) } });
    const request = send("POST", services, body, `${admin}Content-Type: application/json\r\n`);
    const first = api.exchange(request);
    await expect.poll(() => running).toBe(1);
    const refused = split(await api.exchange(request));
    expect([refused.status, refused.header("retry-after")]).toEqual([429, ["1"]]);
    held.reject(new Error("ended by the test"));
    expect(split(await first).status).toBe(500);
    expect(split(await api.exchange(request)).status).toBe(500);
  });

  test("failures without end leave a few lines of few characters in the log; those with a session have their own", async () => {
    const api = await start({});
    for (let i = 0; i < 30; i++) {
      await api.exchange(get(`/edge/client/v1/nothing-${i}`));
      await api.exchange("NOT HTTP\r\n\r\n");
    }
    const lines = (msg: string) => api.logged.filter((line) => line.level === "info" && line.msg === msg);
    expect(lines("request refused")).toHaveLength(lineBounds.perReason);
    expect(lines("request could not be read")).toHaveLength(lineBounds.perReason);
    const body = JSON.stringify({
      name: 1,
      encryptionRequired: true,
      ["x".repeat(5_000)]: 1,
      tags: { ["y".repeat(5_000)]: [] },
    });
    await api.exchange(send("POST", services, body, admin));
    const [line] = lines("request refused").slice(lineBounds.perReason);
    expect(line?.fields).toMatchObject({ identityId: "identity-1", status: 400 });
    expect(JSON.stringify(line).length).toBeLessThan(2_000);
  });

  describe("GHSA-j952-6x8x-jmj6: the body of an enrollment is read once, and never beyond its limit:", () => {
    const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
    test.each([
      ["enroll?method=ott&token=5d2a0ba5-5f0c-4b3b-8e51-0f35d0a1c6a1", "application/x-pem-file"],
      ["enroll?method=ott&token=5d2a0ba5-5f0c-4b3b-8e51-0f35d0a1c6a1", "application/json"],
      ["enroll?method=ca", "text/plain"],
      ["enroll/ott", "application/json"],
      ["enroll/ottca", "application/json"],
      ["enroll/ca", "application/json"],
      ["enroll/updb?token=5d2a0ba5-5f0c-4b3b-8e51-0f35d0a1c6a1", "application/json"],
      ["enroll/erott", "application/json"],
      ["enroll/extend/router", "application/json"],
      ["authenticate?method=password", "application/json"],
    ])("%s as %s", async (path, type) => {
      const bodies: unknown[] = [];
      const keep = async ({ body }: { body: unknown }) => {
        bodies.push(body);
        return { data: { cert: "c" } };
      };
      const api = await start({ client: { enroll: keep as never } });
      const head = `POST /edge/client/v1/${path} HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\n`;
      const announced = await api.exchange(`${head}Content-Length: 1048577\r\n\r\n`);
      const streamed = await api.exchange(`${head}Transfer-Encoding: chunked\r\n\r\n${chunk.repeat(17)}0\r\n\r\n`);
      expect([split(announced).status, split(streamed).status]).toEqual([413, 413]);
      expect(bodies).toEqual([]);
    });

    test("what comes in pieces reaches the handler whole", async () => {
      const bodies: unknown[] = [];
      const api = await start({
        client: {
          enroll: async ({ body }) => {
            bodies.push(body);
            return { data: {} };
          },
        },
      });
      const text = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n".repeat(3_000);
      const chunks = (text.match(/[\s\S]{1,7000}/g) ?? []).map((part) => `${part.length.toString(16)}\r\n${part}\r\n`);
      const head =
        "POST /edge/client/v1/enroll?method=ott HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-pem-file\r\n";
      await api.exchange(`${head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n${chunks.join("")}0\r\n\r\n`);
      expect(bodies).toEqual([{ text }]);
    });
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
