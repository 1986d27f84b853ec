import { afterAll, beforeAll, expect, test } from "vitest";
import { CLOSE, split, startTestApi, type TestApi } from "./testing.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({ handlers: {} });
});
afterAll(() => api.close());

const ask = async (method: string, path: string, headers: string) =>
  split(await api.exchange(`${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${CLOSE}${headers}\r\n`));
const ORIGIN = "Origin: https://console.example\r\n";
const PREFLIGHT = `${ORIGIN}Access-Control-Request-Method: PATCH\r\nAccess-Control-Request-Headers: zt-session,content-type\r\n`;

test.each(["/edge/client/v1/services", "/edge/management/v1/services/x", "/fabric/v1/links", "/edge/v1/version"])(
  "a page of another origin may call %s with its token",
  async (path) => {
    const answer = await ask("OPTIONS", path, PREFLIGHT);
    expect(answer.status).toBe(200);
    expect(answer.header("access-control-allow-origin")).toEqual(["*"]);
    expect(answer.header("access-control-allow-methods")[0]).toContain("PATCH");
    expect(answer.header("access-control-allow-headers")[0]).toContain("zt-session");
  },
);

test("a page may read answers and errors, but send nothing that a browser adds by itself", async () => {
  const answer = await ask("GET", "/edge/management/v1/services", ORIGIN);
  expect(answer.status).toBe(401);
  expect(answer.header("access-control-allow-origin")).toEqual(["*"]);
  expect(answer.header("access-control-allow-credentials")).toEqual([]);
});

test("what is no preflight is an ordinary request", async () => {
  expect((await ask("OPTIONS", "/edge/management/v1/services", ORIGIN)).status).toBe(405);
  expect((await ask("OPTIONS", "/oidc/token", PREFLIGHT)).status).toBe(404);
  expect((await ask("GET", "/edge/management/v1/services", "")).header("access-control-allow-origin")).toEqual([]);
});
