import { get } from "node:http";
import { Server } from "node:net";
import { silentLogger } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { HealthChecks } from "../health/health-checks.ts";
import { type TestStore, testStore } from "../store/testing/test-store.ts";
import { ControllerMetrics } from "./metrics.ts";
import { metricsPage, startMetricsListener } from "./serve-metrics.ts";
import { connectMetrics, type FabricHappening } from "./sources.ts";

function fetchText(port: number, path: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    get({ host: "127.0.0.1", port, path, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
    }).on("error", reject);
  });
}

describe("figures", () => {
  it("count what happened, and read the rest at each scrape", async () => {
    const metrics = new ControllerMetrics();
    const told: ((event: FabricHappening) => void)[] = [];
    let reads = 0;
    const policy: { onUpdate?: (seconds: number) => void } = {};
    connectMetrics(metrics, {
      counts: async () => {
        reads++;
        return { apiSessions: 3, sessions: 2, identities: 7 };
      },
      pool: { totalCount: 5, idleCount: 3, waitingCount: 1 },
      databaseSize: () => Promise.reject(new Error("away")),
      outage: { since: new Date() },
      clock: { aheadMs: -1_500 },
      changes: { subscribe: () => () => undefined },
      policy,
      fabric: {
        onlineRouterIds: () => ["a", "b"],
        circuits: () => [1],
        links: () => [1, 2, 3],
        onEvent: (listener) => told.push(listener),
      },
      connections: () => 4,
    });
    metrics.answered({ api: "client", operation: "listServices", status: 200, seconds: 0.002 });
    metrics.queried(0.001, false);
    metrics.swept("enrollments", 12);
    policy.onUpdate?.(0.003);
    for (const listen of told) {
      listen({ kind: "circuit-created", timespanMs: 20 });
      listen({ kind: "circuit-failed", cause: "NO_PATH" });
      listen({ kind: "circuit-rerouted" });
    }
    const text = await metrics.registry.metrics();
    await metrics.registry.metrics();
    expect(reads).toBe(1);
    for (const line of [
      'sallyport_http_requests_total{api="client",operation="listServices",status="200"} 1',
      'sallyport_http_request_duration_seconds_count{api="client"} 1',
      'sallyport_database_query_duration_seconds_count{outcome="error"} 1',
      'sallyport_upkeep_removed_total{what="enrollments"} 12',
      "sallyport_policy_update_duration_seconds_count 1",
      "sallyport_circuits_created_total 1",
      'sallyport_circuit_failures_total{cause="NO_PATH"} 1',
      "sallyport_circuit_reroutes_total 1",
      'sallyport_entities{collection="identities"} 7',
      "sallyport_api_sessions 3",
      "sallyport_routers_connected 2",
      "sallyport_links 3",
      "sallyport_circuits 1",
      "sallyport_http_connections 4",
      "sallyport_database_up 0",
      "sallyport_clock_ahead_seconds -1.5",
      'sallyport_database_connections{state="waiting"} 1',
    ]) {
      expect(text.split("\n")).toContain(line);
    }
    // What cannot be read is left out, and spoils nothing else.
    expect(text).not.toMatch(/^sallyport_database_size_bytes /m);
  });

  it("are served on an address of their own, and beside the APIs to one certificate only", async () => {
    const metrics = new ControllerMetrics();
    metrics.collectProcess("1.2.3");
    const listens = vi.spyOn(Server.prototype, "listen");
    const listener = await startMetricsListener({ host: "127.0.0.1", port: 0, metrics, log: silentLogger });
    const [server] = listens.mock.contexts as Server[];
    listens.mockRestore();
    for (let i = 0; i < 2; i++) server?.emit("error", new Error("accept EMFILE"));
    const { text } = await fetchText(listener.port, "/metrics");
    expect(text).toContain("# TYPE sallyport_http_requests_total counter");
    expect(text).toContain(
      `sallyport_build_info{program="controller",version="1.2.3",node="${process.versions.node}"} 1\n`,
    );
    expect((await fetchText(listener.port, "/")).status).toBe(404);
    await listener.close();

    expect(await metricsPage(metrics, () => false).handle({ query: {}, peerCertificates: [] })).toBeUndefined();
    expect(await metricsPage(metrics, () => true).handle({ query: {}, peerCertificates: [] })).toMatchObject({
      status: 200,
    });
  });
});

describe("health", () => {
  let test: TestStore;
  beforeAll(async () => {
    test = await testStore();
  });
  afterAll(() => test.drop());

  it("reads the database for real, and says since when it cannot", async () => {
    let at = Date.UTC(2026, 0, 1);
    const outage: { since: Date | undefined } = { since: undefined };
    const checks = new HealthChecks({ db: test.store.db, outage, now: () => new Date(at) });
    expect(await checks.document({ isShort: false, isRaft: false })).toEqual({
      meta: {},
      data: {
        healthy: true,
        checks: [
          {
            id: "database.read",
            healthy: true,
            lastCheckDuration: expect.stringMatching(/^\d+\.\d{3}ms$/),
            lastCheckTime: "2026-01-01T00:00:00.000Z",
          },
        ],
      },
    });
    expect(await checks.document({ isShort: true, isRaft: true })).toEqual({
      meta: {},
      data: { healthy: true, isRaftEnabled: false, isLeader: true },
    });
    await test.store.pool.query("ALTER TABLE auth_policy RENAME TO away");
    at += 6_000;
    outage.since = new Date(at);
    await checks.document({ isShort: true, isRaft: false });
    at += 6_000;
    expect(await checks.document({ isShort: false, isRaft: false })).toMatchObject({
      data: {
        healthy: false,
        checks: [
          {
            healthy: false,
            err: "the database cannot be read",
            consecutiveFailures: 2,
            failingSince: "2026-01-01T00:00:06.000Z",
          },
        ],
      },
    });
    await test.store.pool.query("ALTER TABLE away RENAME TO auth_policy");
    outage.since = undefined;
    // Recovered: seen at once, not only when the last answer is old.
    expect(await checks.document({ isShort: true, isRaft: false })).toMatchObject({ data: { healthy: true } });
  });
});
