import { once } from "node:events";
import { afterEach, describe, expect, test } from "vitest";
import { get, split, startTestApi, type TestApi, type TestHandlers, version } from "./testing/test-api.ts";

const started: TestApi[] = [];
afterEach(async () => {
  for (const api of started.splice(0)) await api.close();
});

async function start(handlers: TestHandlers, more: Partial<Parameters<typeof startTestApi>[0]> = {}): Promise<TestApi> {
  const api = await startTestApi({ handlers, ...more });
  started.push(api);
  return api;
}

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
    // It may be over before the others are open.
    const silenced = once(silent, "close");
    const leaver = await api.open();
    leaver.on("error", () => {});
    const head = "Host: x\r\nzt-session: admin\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    leaver.write(`POST /edge/management/v1/services HTTP/1.1\r\n${head}`, () => leaver.destroy());
    const deaf = await api.open();
    deaf.on("error", () => {});
    deaf.pause();
    deaf.write("GET /edge/client/v1 HTTP/1.1\r\nHost: x\r\n\r\n");
    await silenced;
    await expect.poll(() => api.api.connections).toBe(0);
    deaf.destroy();
    expect(split(await api.exchange(get("/version"))).status).toBe(200);
    expect(api.logged.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("have a limit, for all together and for those of one address; the oldest without a session makes room", async () => {
    for (const limits of [{ maxConnections: 3 }, { maxConnectionsPerAddress: 3 }]) {
      const api = await start({ client: { listVersion: async () => ({ data: version }) } }, { limits });
      const used = async (token: string) => {
        const socket = await api.open();
        const closed = once(socket, "close");
        const answered = once(socket, "data");
        socket.write(`GET /edge/client/v1/version HTTP/1.1\r\nHost: x\r\nzt-session: ${token}\r\n\r\n`);
        await answered;
        return { socket, closed };
      };
      const admin = await used("admin");
      const full = await used("full");
      const silent = await api.open();
      const silenced = once(silent.resume(), "close");
      expect(split(await api.exchange(get("/version"))).status).toBe(200);
      await silenced;
      expect(api.logged.map(({ msg }) => msg)).toEqual([
        "too many connections: those that showed no session are closed, the oldest first",
      ]);
      // When only sessions are left, one that is no administrator's gives way.
      const newer = await used("admin");
      expect(split(await api.exchange(get("/version"))).status).toBe(200);
      const last = await used("admin");
      await full.closed;
      const refused = await api.open();
      await once(refused.on("error", () => {}).resume(), "close");
      for (const { socket } of [admin, newer, last]) expect(socket.readyState).toBe("open");
      admin.socket.destroy();
      await expect.poll(() => api.api.connections).toBe(2);
      expect(split(await api.exchange(get("/version"))).status).toBe(200);
    }
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
      { limits: { closeTimeoutMs: 3_000, keepAliveTimeoutMs: 60_000 } },
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
