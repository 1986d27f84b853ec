import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { connect, createServer, type Server, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { connectTarget } from "./connect.ts";
import type { Target } from "./target.ts";

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function listening(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stops.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as { port: number }).port;
}

const tcp = (port: number, more: Partial<Target> = {}): Target => ({
  protocol: "tcp",
  host: "127.0.0.1",
  port,
  ...more,
});

async function connected(target: Target, more: Partial<Parameters<typeof connectTarget>[1]> = {}) {
  const result = await connectTarget(target, { timeoutMs: 5_000, ...more });
  stops.push(() => (result.protocol === "tcp" ? result.socket.destroy() : result.end.close()));
  return result;
}

/** An HTTP proxy that connects to whatever it is asked for. */
async function httpProxy(status = "200 Connection established"): Promise<{ port: number; asked: string[] }> {
  const asked: string[] = [];
  const server = createHttpServer();
  server.on("connect", (request, socket: Socket) => {
    asked.push(request.url ?? "");
    const url = new URL(`tcp://${request.url}`);
    const onward = connect({ host: url.hostname, port: Number(url.port) });
    stops.push(() => onward.destroy());
    onward.on("error", () => {});
    onward.once("connect", () => {
      // The target's first words come in the same packet as the answer.
      onward.once("data", (first: Buffer) => {
        socket.write(Buffer.concat([Buffer.from(`HTTP/1.1 ${status}\r\nProxy: x\r\n\r\n`), first]));
        onward.pipe(socket).pipe(onward);
      });
    });
  });
  return { port: await listening(server), asked };
}

describe("connecting to a target", () => {
  it("by TCP: paused, half open allowed, with both addresses told", async () => {
    const port = await listening(createServer((socket) => socket.write("hello")));
    const result = await connected(tcp(port, { host: "localhost" }));
    if (result.protocol !== "tcp") throw new Error("expected tcp");
    expect(result.addresses.remoteAddress).toBe(`127.0.0.1:${port}`);
    expect(result.addresses.localAddress).toBe(`127.0.0.1:${result.socket.localPort}`);
    expect([result.socket.isPaused(), result.socket.allowHalfOpen]).toEqual([true, true]);
  });

  it("from an address and a port of this host", async () => {
    const port = await listening(createServer());
    const result = await connected(tcp(port, { source: { ip: "127.0.0.9", port: 0 } }));
    expect(result.addresses.localAddress).toMatch(/^127\.0\.0\.9:/);
    const udp = createSocket("udp4");
    stops.push(() => udp.close());
    udp.bind(0, "127.0.0.1");
    await once(udp, "listening");
    const target = { ...tcp(udp.address().port), protocol: "udp" as const, source: { ip: "127.0.0.9", port: 0 } };
    expect((await connected(target)).addresses.localAddress).toMatch(/^127\.0\.0\.9:/);
  });

  it("from an address that is not ours fails with where and why", async () => {
    const port = await listening(createServer());
    const target = tcp(port, { source: { ip: "192.0.2.77", port: 7 } });
    await expect(connected(target)).rejects.toThrow(
      /connecting to tcp:127\.0\.0\.1:\d+ from 192\.0\.2\.77:7 failed: .*EADDRNOTAVAIL/,
    );
  });

  it("that refuses, or has no address, fails with the system's words", async () => {
    const server = createServer();
    const port = await listening(server);
    await new Promise((resolve) => server.close(resolve));
    await expect(connected(tcp(port))).rejects.toThrow(/failed: connect ECONNREFUSED/);
    // A resolver may ask a second time before it gives up.
    const unknown = connected(tcp(port, { host: "no-such-host.invalid" }), { timeoutMs: 25_000 });
    await expect(unknown).rejects.toThrow(/ENOTFOUND|EAI_AGAIN/);
  });

  it("ends when the dialer no longer waits", async () => {
    const gone = AbortSignal.abort(new Error("the dialer has gone"));
    await expect(connected(tcp(9), { signal: gone })).rejects.toThrow(/aborted|gone/);
  });

  it("that never answers fails in time", async () => {
    const silent = await listening(createServer());
    const attempt = connected(tcp(1), { timeoutMs: 200, proxy: { host: "127.0.0.1", port: silent } });
    await expect(attempt).rejects.toThrow("connecting to tcp:127.0.0.1:1 failed: no connection within 200 ms");
  });

  it("through an HTTP proxy, and loses nothing that came with its answer", async () => {
    const port = await listening(createServer((socket) => socket.end("first words")));
    const proxy = await httpProxy();
    const result = await connected(tcp(port, { host: "localhost" }), {
      proxy: { host: "127.0.0.1", port: proxy.port },
    });
    if (result.protocol !== "tcp") throw new Error("expected tcp");
    expect(proxy.asked).toEqual([`localhost:${port}`]);
    let text = "";
    result.socket.on("data", (bytes) => {
      text += String(bytes);
    });
    result.socket.resume();
    await once(result.socket, "end");
    expect(text).toBe("first words");
  });

  it("through an HTTP proxy never with a host that would be a request of its own", async () => {
    const proxy = await httpProxy();
    const attempt = connected(tcp(1, { host: "a:1 HTTP/1.1\r\n\r\nCONNECT b" }), {
      proxy: { host: "127.0.0.1", port: proxy.port },
    });
    await expect(attempt).rejects.toThrow("is no host to ask an http proxy for");
    expect(proxy.asked).toEqual([]);
  });

  it("through an HTTP proxy that refuses fails with the proxy's words; UDP does not go through one", async () => {
    const port = await listening(createServer((socket) => socket.end("x")));
    const proxy = await httpProxy("403 Forbidden");
    const through = { proxy: { host: "127.0.0.1", port: proxy.port } };
    await expect(connected(tcp(port), through)).rejects.toThrow('the http proxy refused: "HTTP/1.1 403 Forbidden"');
    await expect(connected({ ...tcp(port), protocol: "udp" }, through)).rejects.toThrow("an http proxy carries no udp");
  });

  it("by UDP: datagrams that came early are kept; one that refuses closes", async () => {
    const udp = createSocket("udp4");
    udp.on("message", (datagram, from) => udp.send(`re: ${datagram}`, from.port, from.address));
    udp.bind(0, "127.0.0.1");
    await once(udp, "listening");
    const result = await connected({ ...tcp(udp.address().port), protocol: "udp" });
    if (result.protocol !== "udp") throw new Error("expected udp");
    const seen: string[] = [];
    result.end.send(Buffer.from("xhellox"), 1, 6);
    result.end.onMessage((datagram) => void seen.push(String(datagram)));
    await expect.poll(() => seen).toEqual(["re: hello"]);
    udp.close();
    const closed = new Promise<string | undefined>((resolve) => result.end.onClose(resolve));
    const again = setInterval(() => result.end.send(Buffer.from("x"), 0, 1), 20);
    stops.push(() => clearInterval(again));
    expect(await closed).toMatch(/ECONNREFUSED/);
  });
});
