import { Server } from "node:net";
import { afterEach, describe, expect, test, vi } from "vitest";
import { KubeError } from "./client/errors.ts";
import { type Check, HealthServer, stuckCheck, syncedCheck, type Watched } from "./health.ts";
import { KINDS } from "./kinds.ts";

let server: HealthServer | undefined;

afterEach(async () => {
  await server?.close();
});

async function start(live: Record<string, Check>, ready: Record<string, Check> = {}, metrics?: () => Promise<string>) {
  server = await HealthServer.listen({ host: "127.0.0.1", port: 0, live, ready, ...(metrics ? { metrics } : {}) });
  const { port } = server;
  return async (path: string, method = "GET") => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method });
    return { code: answer.status, body: await answer.text(), type: answer.headers.get("content-type") };
  };
}

describe("probes", () => {
  test("say which check fails, and why", async () => {
    let problem: string | undefined;
    const get = await start({ loop: () => undefined }, { caches: () => problem, leader: () => undefined });
    expect(await get("/healthz")).toMatchObject({ code: 200, body: "[+]loop ok\nhealthz check passed\n" });
    expect(await get("/readyz")).toMatchObject({ code: 200 });
    problem = "secrets are not listed yet";
    expect(await get("/readyz")).toMatchObject({
      code: 503,
      body: "[-]caches failed: secrets are not listed yet\n[+]leader ok\nreadyz check failed\n",
    });
    expect((await get("/readyz/leader")).code).toBe(200);
    expect((await get("/readyz/caches")).code).toBe(503);
    expect((await get("/readyz/toString")).code).toBe(404);
    expect((await get("/healthz")).code).toBe(200);
  });

  test("are answered after a failed accept", async () => {
    const listens = vi.spyOn(Server.prototype, "listen");
    const get = await start({});
    const [http] = listens.mock.contexts as Server[];
    listens.mockRestore();
    for (let i = 0; i < 2; i++) http?.emit("error", new Error("accept EMFILE"));
    expect((await get("/healthz")).code).toBe(200);
  });

  test("are read only; other pages are not there", async () => {
    const get = await start({});
    expect((await get("/healthz", "POST")).code).toBe(405);
    expect((await get("/")).code).toBe(404);
    expect((await get("/metrics")).code).toBe(404);
  });

  test("a check that throws is no success", async () => {
    const get = await start({
      broken: () => {
        throw new Error("inside");
      },
    });
    expect(await get("/healthz")).toMatchObject({ code: 500 });
  });

  test("metrics come in the format of Prometheus", async () => {
    const get = await start({}, {}, async () => "a 1\n");
    expect(await get("/metrics")).toMatchObject({
      code: 200,
      body: "a 1\n",
      type: "text/plain; version=0.0.4; charset=utf-8",
    });
  });
});

describe("checks of reflectors", () => {
  const watched = (o: Partial<Watched>): Watched => ({
    kind: KINDS.Secret,
    isSynced: true,
    silentMs: 0,
    lastError: undefined,
    ...o,
  });

  test("ready needs every list, and says which right or kind is missing", () => {
    expect(syncedCheck([watched({})])()).toBeUndefined();
    expect(syncedCheck([watched({}), watched({ isSynced: false })])()).toBe("secrets are not listed yet");
    const lastError = new Error("cannot list secrets");
    expect(syncedCheck([watched({ isSynced: false, lastError })])()).toContain("cannot list secrets");
    const refusal = { status: 403, reason: "Forbidden", message: "cannot watch secrets" };
    expect(syncedCheck([watched({ lastError: new KubeError(refusal) })])()).toContain("cannot watch secrets");
    const unknown = { status: 404, reason: "NotFound", message: "there is no such kind" };
    expect(syncedCheck([watched({ lastError: new KubeError(unknown) })])()).toContain("there is no such kind");
    expect(syncedCheck([watched({ lastError: new Error("the server is away") })])()).toBeUndefined();
  });

  test("live is one that hears its server or knows why not", () => {
    const long = 11 * 60_000;
    expect(stuckCheck([watched({})])()).toBeUndefined();
    expect(stuckCheck([watched({ silentMs: long })])()).toBe("nothing heard of secrets for 600 s");
    expect(stuckCheck([watched({ silentMs: long, lastError: new Error("away") })])()).toBeUndefined();
  });
});
