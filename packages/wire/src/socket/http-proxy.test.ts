import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { dialChannel } from "../channel/dialer.ts";
import { acceptChannels } from "../channel/listener.ts";
import { silentLogger } from "../log.ts";
import { TestAuthority } from "../testing/authority.ts";
import { connectThroughProxy, type HttpProxy, proxyOf } from "./http-proxy.ts";
import { TlsPort } from "./tls-port.ts";

const closers: (() => void | Promise<void>)[] = [];
let asked: { authority: string; authorization: string | undefined }[];
let proxy: HttpProxy;

/** A proxy for every client with the right password. */
async function startProxy(password: string | undefined): Promise<HttpProxy> {
  const server = createServer();
  const sockets = new Set<Socket>();
  server.on("connect", (request: IncomingMessage, client: Socket) => {
    sockets.add(client);
    client.on("error", () => {});
    const authorization = request.headers["proxy-authorization"];
    asked.push({ authority: request.url ?? "", authorization });
    const wanted = password === undefined ? undefined : `Basic ${Buffer.from(`me:${password}`).toString("base64")}`;
    if (authorization !== wanted) {
      client.end("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno");
      return;
    }
    const { hostname, port } = new URL(`tcp://${request.url ?? ""}`);
    const target = connect(Number(port), hostname.replace(/^\[|\]$/g, ""), () => {
      client.write("HTTP/1.1 200 Connection established\r\n\r\n");
      target.pipe(client).pipe(target);
    });
    sockets.add(target);
    target.on("error", () => client.end("HTTP/1.1 502 Bad Gateway\r\n\r\n"));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
}

/** Answers every connection with the same text. */
async function startRude(text: string): Promise<HttpProxy> {
  const server = createTcpServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end(text));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => void server.close());
  return { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
}

beforeEach(async () => {
  asked = [];
  proxy = await startProxy(undefined);
});
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** A port that accepts channels without ALPN; its address. */
async function listenForChannels(authority: TestAuthority): Promise<string> {
  const port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: await authority.identity("far") });
  closers.push(() => port.close());
  const user = { name: "test", protocols: [], acceptsNoAlpn: true, id: "far", log: silentLogger };
  closers.push(acceptChannels(port, { ...user, onChannel: () => {} }));
  return `tls:127.0.0.1:${port.port}`;
}

const signal = () => new AbortController().signal;

describe("a dial through an HTTP proxy", () => {
  test.each(["127.0.0.1", "::1"])("gives a channel to %s with the listener's certificate checked", async (host) => {
    const authority = await TestAuthority.create();
    const listening = await authority.identity("far", { ip: [host] });
    const port = await TlsPort.listen({ host, port: 0, identity: listening });
    closers.push(() => port.close());
    const stop = acceptChannels(port, {
      name: "test",
      protocols: ["ziti-ctrl"],
      acceptsNoAlpn: false,
      id: "far",
      log: silentLogger,
      onChannel: (channel) =>
        channel.handle(70, (message) => channel.reply(message, { contentType: 71, body: message.body })),
    });
    closers.push(stop);
    const shown = host.includes(":") ? `[${host}]:${port.port}` : `${host}:${port.port}`;
    const dial = async (identity: Awaited<ReturnType<TestAuthority["identity"]>>) =>
      dialChannel({ address: `tls:${shown}`, identity, alpn: "ziti-ctrl", hello: { idToken: "near" }, proxy });
    const channel = await dial(await authority.identity("near"));
    const body = Buffer.alloc(300_000, "x");
    expect((await channel.request({ contentType: 70, body })).body.equals(body)).toBe(true);
    expect(asked).toEqual([{ authority: shown, authorization: undefined }]);
    channel.close();
    const other = await (await TestAuthority.create()).identity("near");
    await expect(dial(other)).rejects.toMatchObject({ code: "DIAL_FAILED" });
  });

  test.each([true, false])(
    "leaves errors of its connection to the channel's reader alone (proxy: %s)",
    async (isProxied) => {
      const authority = await TestAuthority.create();
      const address = await listenForChannels(authority);
      const identity = await authority.identity("near");
      const emits = vi.spyOn(TLSSocket.prototype, "emit");
      closers.push(() => emits.mockRestore());
      const hello = { idToken: "near" };
      const channel = await dialChannel({ address, identity, hello, ...(isProxied ? { proxy } : {}) });
      const secured = emits.mock.calls.findIndex(([event]) => event === "secureConnect");
      const socket = emits.mock.contexts[secured] as TLSSocket | undefined;
      expect(socket?.listenerCount("error")).toBe(1);
      channel.close();
    },
  );

  test("fails when its connection does at the end of the handshake", async () => {
    const authority = await TestAuthority.create();
    const address = await listenForChannels(authority);
    const identity = await authority.identity("near");
    const emit = TLSSocket.prototype.emit;
    const emits = vi.spyOn(TLSSocket.prototype, "emit").mockImplementation(function (this: TLSSocket, ...event) {
      const isHeard = emit.apply(this, event);
      if (event[0] === "secureConnect") this.destroy(new Error("broken"));
      return isHeard;
    });
    closers.push(() => emits.mockRestore());
    await expect(dialChannel({ address, identity, hello: { idToken: "near" }, proxy })).rejects.toThrow();
  });

  test("names itself to a proxy that wants it, and says what is wrong when that does not help", async () => {
    const guarded = await startProxy("open sesame");
    const target = { host: guarded.host, port: guarded.port };
    await expect(connectThroughProxy(guarded, target, { signal: signal() })).rejects.toMatchObject({
      code: "PROXY_REFUSED",
      message: expect.stringMatching(/407 .*proxy\.username and proxy\.password/),
    });
    const known = { ...guarded, username: "me", password: "open sesame" };
    const socket = await connectThroughProxy(known, target, { signal: signal() });
    expect(socket.destroyed).toBe(false);
    socket.destroy();
  });

  test.each([
    ["refuses", "HTTP/1.1 403 Forbidden\r\n\r\n", "PROXY_REFUSED"],
    ["speaks something else", "SSH-2.0-OpenSSH\r\n\r\n", "PROXY_REFUSED"],
    ["says nothing", "", "PROXY_FAILED"],
    ["sends data of its own", "HTTP/1.1 200 OK\r\n\r\nsurprise", "PROXY_FAILED"],
    ["never ends its answer", `HTTP/1.1 200 OK\r\nA: ${"x".repeat(20_000)}`, "PROXY_FAILED"],
  ])("fails with a proxy that %s", async (_what, text, code) => {
    const rude = await startRude(text);
    await expect(
      connectThroughProxy(rude, { host: "far.example", port: 1 }, { signal: signal() }),
    ).rejects.toMatchObject({ code });
  });

  test("is never asked for a host that would be a request of its own", async () => {
    const open = await startProxy(undefined);
    const host = "a:1 HTTP/1.1\r\n\r\nCONNECT b";
    await expect(connectThroughProxy(open, { host, port: 1 }, { signal: signal() })).rejects.toThrow(
      "is no host to ask",
    );
    expect(asked).toEqual([]);
  });

  test("ends when it is aborted, and when there is no proxy", async () => {
    const silent = createTcpServer(() => {});
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const stop = new AbortController();
    const waiting = connectThroughProxy({ host: "127.0.0.1", port }, { host: "a", port: 1 }, { signal: stop.signal });
    stop.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    await new Promise((resolve) => silent.close(resolve));
    const gone = connectThroughProxy({ host: "127.0.0.1", port }, { host: "a", port: 1 }, { signal: signal() });
    await expect(gone).rejects.toMatchObject({
      code: "PROXY_FAILED",
      message: expect.stringContaining("ECONNREFUSED"),
    });
  });
});

const PROXY = { host: "proxy.example", port: 3128 };
const env = { HTTPS_PROXY: "http://proxy.example:3128" };
const of = (url: string, more: Record<string, string> = {}) => proxyOf(new URL(url), { ...env, ...more });

describe("the proxy of the environment", () => {
  test.each<[string, Record<string, string>, object | undefined]>([
    ["https://ctrl.example", env, PROXY],
    ["https://ctrl.example", { https_proxy: "proxy.example:3128" }, PROXY],
    ["https://ctrl.example", {}, undefined],
    ["http://ctrl.example", env, undefined],
    ["http://ctrl.example", { HTTP_PROXY: "http://proxy.example" }, { host: "proxy.example", port: 80 }],
    [
      "https://ctrl.example",
      { HTTPS_PROXY: "http://me:p%40ss@[2001:db8::1]:8080/" },
      { host: "2001:db8::1", port: 8080, username: "me", password: "p@ss" },
    ],
    ["https://localhost:1280", env, undefined],
    ["https://127.0.0.2", env, undefined],
    ["https://[::1]:6443", env, undefined],
  ])("of %s by %j", (url, given, expected) => expect(proxyOf(new URL(url), given)).toEqual(expected));

  test.each(["https://p.example:3128", "socks5://p.example", "http://", "http://a b"])("is refused as %s", (text) => {
    expect(() => of("https://ctrl.example", { HTTPS_PROXY: text })).toThrow(/^HTTPS_PROXY: expected a proxy as http:/);
  });
});

// biome-ignore format: a table
test.each<[string, string, boolean]>([
  ["*", "https://ctrl.example", true],
  ["ctrl.example", "https://ctrl.example", true],
  ["example", "https://ctrl.example", true],
  ["rl.example", "https://ctrl.example", false],
  [".example", "https://ctrl.example", true],
  ["*.example", "https://ctrl.example", true],
  [".ctrl.example", "https://ctrl.example", false],
  [" other , CTRL.Example ", "https://ctrl.example", true],
  ["ctrl.example:1280", "https://ctrl.example:1280", true],
  ["ctrl.example:1280", "https://ctrl.example", false],
  ["ctrl.example:443", "https://ctrl.example", true],
  ["10.0.0.0/8", "https://10.96.0.1", true],
  ["10.0.0.0/8", "https://11.0.0.1", false],
  ["10.0.0.0/8", "https://ctrl.example", false],
  ["10.0.0.0/99", "https://10.96.0.1", false],
  ["10.96.0.1", "https://10.96.0.1:6443", true],
  ["96.0.1", "https://10.96.0.1", false],
  ["2001:db8::/32", "https://[2001:db8::7]", true],
  ["2001:db8::7", "https://[2001:db8::7]", true],
  ["[2001:db8::7]:443", "https://[2001:db8::7]", true],
  ["[2001:db8::7]:1", "https://[2001:db8::7]", false],
  ["", "https://ctrl.example", false],
])("NO_PROXY %j excepts %s: %s", (NO_PROXY, url, expected) => {
  expect(of(url, { NO_PROXY }) === undefined).toBe(expected);
});
