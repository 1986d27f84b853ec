import { once } from "node:events";
import { createServer as createHttpServer, type IncomingMessage } from "node:http";
import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { HealthAction, HealthCheckConfig } from "../config/health-config.ts";
import { applyEffect, CheckHistory, type Offer, runCheck } from "./health.ts";

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

const action = (more: Partial<HealthAction>): HealthAction => ({
  trigger: "fail",
  consecutiveEvents: 0,
  durationMs: 0,
  effect: { kind: "send event" },
  ...more,
});

/** Which results (by their place) call for an action; a result every second. */
function called(one: HealthAction, results: string): number[] {
  const history = new CheckHistory();
  return [...results].flatMap((result, i) => (history.add(result === "+", i * 1_000, [one]).length > 0 ? [i] : []));
}

describe("actions of a check", () => {
  it.each<[string, Partial<HealthAction>, string, number[]]>([
    ["every failure", { trigger: "fail" }, "+-+--", [1, 3, 4]],
    ["every pass", { trigger: "pass" }, "+-+--", [0, 2]],
    ["changes; a first pass is none", { trigger: "change" }, "++--+-", [2, 4, 5]],
    ["a first failure is a change", { trigger: "change" }, "-", [0]],
    ["so many in a row", { consecutiveEvents: 3 }, "--+----", [5, 6]],
    ["one in a row is each", { consecutiveEvents: 1 }, "-+-", [0, 2]],
    ["for so long", { durationMs: 2_000 }, "----+---", [2, 3, 7]],
    ["passing for so long", { trigger: "pass", durationMs: 1_000 }, "+-++", [3]],
    ["so many and for so long", { consecutiveEvents: 2, durationMs: 2_000 }, "---", [2]],
  ])("%s", (_, one, results, expected) => {
    expect(called(action(one), results)).toEqual(expected);
  });

  it("times are rounded to tenths of a second", () => {
    const history = new CheckHistory();
    const one = [action({ durationMs: 1_000 })];
    expect(history.add(false, 0, one)).toEqual([]);
    expect(history.add(false, 949, one)).toEqual([]);
    expect(history.add(false, 950, one)).toEqual(one);
  });

  it("all that apply are given, in their order", () => {
    const [first, second] = [action({}), action({ trigger: "change" })];
    expect(new CheckHistory().add(false, 0, [first!, second!, action({ trigger: "pass" })])).toEqual([first, second]);
  });
});

describe("effects on how a terminator is offered", () => {
  const baseline: Offer = { cost: 10, precedence: "required" };
  it.each<[string, Offer, Parameters<typeof applyEffect>[2], Offer]>([
    ["unhealthy", baseline, { kind: "mark unhealthy" }, { cost: 10, precedence: "failed" }],
    ["healthy", { cost: 20, precedence: "failed" }, { kind: "mark healthy" }, { cost: 20, precedence: "required" }],
    ["dearer", baseline, { kind: "increase cost", by: 5 }, { cost: 15, precedence: "required" }],
    ["dearest", baseline, { kind: "increase cost", by: 65_535 }, { cost: 65_535, precedence: "required" }],
    [
      "failed ones do not get dearer",
      { cost: 10, precedence: "failed" },
      { kind: "increase cost", by: 5 },
      { cost: 10, precedence: "failed" },
    ],
    [
      "cheaper",
      { cost: 30, precedence: "required" },
      { kind: "decrease cost", by: 5 },
      { cost: 25, precedence: "required" },
    ],
    [
      "never cheaper than configured",
      { cost: 12, precedence: "failed" },
      { kind: "decrease cost", by: 5 },
      { cost: 10, precedence: "failed" },
    ],
    ["an event changes nothing", baseline, { kind: "send event" }, baseline],
  ])("%s", (_, offer, effect, after) => {
    expect(applyEffect(offer, baseline, effect)).toEqual(after);
  });
});
