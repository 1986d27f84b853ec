import { once } from "node:events";
import { createServer as createHttpServer, type IncomingMessage } from "node:http";
import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { HealthCheckConfig } from "../config/health-config.ts";
import { runCheck } from "./checks.ts";

const never = new AbortController().signal;
const times = { intervalMs: 1_000, timeoutMs: 5_000, actions: [] };
let port = 0;
const requests: { method: string | undefined; body: string }[] = [];
const server = createHttpServer(async (request: IncomingMessage, response) => {
  let body = "";
  for await (const chunk of request) body += String(chunk);
  requests.push({ method: request.method, body });
  if (request.url === "/silent") return;
  response.statusCode = request.url === "/teapot" ? 418 : 200;
  response.end("all is well here");
});

beforeAll(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  port = (server.address() as { port: number }).port;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const http = (path: string, more: object = {}): HealthCheckConfig => ({
  kind: "http",
  url: `http://127.0.0.1:${port}${path}`,
  method: "GET",
  expectStatus: 200,
  ...times,
  ...more,
});

describe("checks", () => {
  it("of a port pass when something listens", async () => {
    expect(await runCheck({ kind: "port", host: "127.0.0.1", port, ...times }, never)).toBeUndefined();
    const closed = createServer().listen(0, "127.0.0.1");
    await once(closed, "listening");
    const free = (closed.address() as { port: number }).port;
    await new Promise((resolve) => closed.close(resolve));
    expect(await runCheck({ kind: "port", host: "127.0.0.1", port: free, ...times }, never)).toMatch(/ECONNREFUSED/);
  });

  it.each<[string, () => HealthCheckConfig, string | undefined]>([
    ["the expected status", () => http("/"), undefined],
    ["another status", () => http("/teapot"), "expected status 200, got 418"],
    ["a status that is expected", () => http("/teapot", { expectStatus: 418 }), undefined],
    ["an expected body", () => http("/", { expectInBody: "is well" }), undefined],
    ["another body", () => http("/", { expectInBody: "is ill" }), 'expected "is ill" in the body'],
    ["no answer", () => http("/silent", { timeoutMs: 200 }), "no answer within 200 ms"],
  ])("by HTTP: %s", async (_, check, failure) => {
    expect(await runCheck(check(), never)).toBe(failure);
  });

  it("by HTTP send what they are told to", async () => {
    await runCheck(http("/", { method: "POST", body: "ping" }), never);
    expect(requests.at(-1)).toEqual({ method: "POST", body: "ping" });
  });

  it("end when they are stopped", async () => {
    const stop = new AbortController();
    const running = runCheck(http("/silent"), stop.signal);
    stop.abort(new Error("stopped"));
    expect(await running).toBeDefined();
  });
});
