import { once } from "node:events";
import { get } from "node:https";
import { type AddressInfo, connect as connectTcp, createServer, Server } from "node:net";
import type { Duplex } from "node:stream";
import { connect, type TLSSocket } from "node:tls";
import {
  acceptChannels,
  BaseHeader,
  BaseType,
  type Channel,
  EDGE_ALPN,
  encodeMessage,
  FrameParser,
  HandshakeTurns,
  Headers,
  type Identity,
  type Message,
  messageOf,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { costlyChain } from "@sallyport/wire/testing/costly-handshake";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createWebSocketStream, WebSocket } from "ws";
import { WebSocketPort, type WebSocketSettings } from "./web-socket-port.ts";

const settings: WebSocketSettings = { handshakeTimeout: 10, pingInterval: 54, pongTimeout: 60 };
let authority: TestAuthority;
let port: WebSocketPort;
let turns: HandshakeTurns;
let accepted: PromiseWithResolvers<Channel>;
let stopAccepting: () => void;
const clients: { destroy(): void }[] = [];

async function listen(own: Partial<WebSocketSettings> = {}, outer?: Identity): Promise<void> {
  turns = new HandshakeTurns();
  port = await WebSocketPort.listen({
    turns,
    host: "127.0.0.1",
    port: 0,
    identity: await authority.identity("router1"),
    outer,
    settings: { ...settings, ...own },
    log: silentLogger,
  });
  accepted = Promise.withResolvers();
  stopAccepting = acceptChannels(port, {
    name: "edge",
    protocols: [EDGE_ALPN],
    acceptsNoAlpn: true,
    id: "router1",
    log: silentLogger,
    onChannel: (channel) => {
      channel.handle(70, (message) => channel.reply(message, { contentType: 71, body: message.body }));
      accepted.resolve(channel);
    },
  });
}

beforeEach(async () => {
  authority = await TestAuthority.create();
});
afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  await port.close();
});

async function openWebSocket(path = "/ws", at = port.port): Promise<WebSocket> {
  const socket = new WebSocket(`wss://localhost:${at}${path}`, { ca: authority.certPem });
  clients.push({ destroy: () => socket.terminate() });
  socket.on("error", () => {});
  await once(socket, "open");
  return socket;
}

/** A way to the port that counts the TLS records which come back. */
async function countingWay(): Promise<{ port: number; records: () => number }> {
  let records = 0;
  const server = createServer((near) => {
    const far = connectTcp(port.port, "127.0.0.1");
    clients.push(near, far);
    for (const socket of [near, far]) socket.on("error", () => {});
    near.pipe(far);
    let partial = Buffer.alloc(0);
    far.on("data", (chunk: Buffer) => {
      partial = Buffer.concat([partial, chunk]);
      while (partial.length >= 5 && partial.length >= 5 + partial.readUInt16BE(3)) {
        records++;
        partial = partial.subarray(5 + partial.readUInt16BE(3));
      }
      near.write(chunk);
    });
  });
  clients.push({ destroy: () => server.close() });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, records: () => records };
}

/** TLS inside a web socket. */
async function secure(
  socket: WebSocket,
  identity: Pick<Identity, "certPem" | "keyPem"> | undefined,
  alpn?: string,
): Promise<TLSSocket> {
  const stream: Duplex = createWebSocketStream(socket);
  stream.on("error", () => {});
  const inner = connect({
    socket: stream,
    host: "localhost",
    servername: "localhost",
    ca: authority.certPem,
    ...(alpn === undefined ? {} : { ALPNProtocols: [alpn] }),
    ...(identity === undefined ? {} : { cert: identity.certPem, key: identity.keyPem }),
  });
  inner.on("error", () => {});
  await once(inner, "secureConnect");
  return inner;
}

function messagesOf(socket: TLSSocket): (wanted: number) => Promise<Message> {
  const waiting: { type: number; resolve: (message: Message) => void }[] = [];
  const parser = new FrameParser({ maxHeaders: 65_536, maxBody: 16_777_216 }, (frame) => {
    const at = waiting.findIndex(({ type }) => type === frame.contentType);
    if (at >= 0) waiting.splice(at, 1)[0]?.resolve(messageOf(frame));
  });
  socket.on("data", (chunk: Buffer) => parser.push(chunk));
  return (type) => new Promise((resolve) => waiting.push({ type, resolve }));
}

const hello = encodeMessage({ contentType: BaseType.Hello, headers: new Headers(), body: Buffer.from("browser") }, -1);

describe("a port for web sockets", () => {
  it("stays open after a failed accept", async () => {
    const listens = vi.spyOn(Server.prototype, "listen");
    await listen();
    const [server] = listens.mock.contexts as Server[];
    listens.mockRestore();
    server?.emit("error", new Error("accept EMFILE"));
    await openWebSocket();
  });

  it.each([undefined, EDGE_ALPN])("carries channels of SDKs, whose inner ALPN is %s, both ways", async (alpn) => {
    await listen();
    const browser = await authority.identity("browser");
    const outside = await openWebSocket();
    const inner = await secure(outside, browser, alpn);
    const next = messagesOf(inner);
    const answer = next(BaseType.Result);
    inner.write(hello);
    const result = await answer;
    expect(result.headers.getString(BaseHeader.Id)).toBe("router1");
    const channel = await accepted.promise;
    expect(channel.peer.fingerprint).toBe(browser.leafFingerprint);
    expect(channel.peer.address).toMatch(/^127\.0\.0\.1:\d+$/);
    const body = Buffer.alloc(700_000, "y");
    const echoed = next(71);
    inner.write(encodeMessage({ contentType: 70, headers: new Headers(), body }, 1));
    expect((await echoed).body.equals(body)).toBe(true);
    const gone = once(outside, "close");
    channel.close();
    await gone;
  });

  it("refuses an address whose handshake inside was costly", async () => {
    await listen();
    await secure(await openWebSocket(), costlyChain());
    await expect.poll(() => turns.shutFor("127.0.0.1")).toBeGreaterThan(0);
    await expect(openWebSocket()).rejects.toThrow();
  });

  it("ends the turn of a handshake inside once it is done", async () => {
    await listen();
    const isDone = Promise.withResolvers<boolean>();
    const take = turns.take.bind(turns);
    turns.take = (taker) => {
      const turn = take(taker);
      return {
        end: (isOrdinary) => {
          isDone.resolve(isOrdinary !== undefined);
          turn.end(isOrdinary);
        },
      };
    };
    await secure(await openWebSocket(), await authority.identity("browser"));
    expect(await isDone.promise).toBe(true);
  });

  it("sends each TLS record as a message, and each frame from the start of one, as SDKs in browsers need it", async () => {
    await listen();
    const outside = await openWebSocket();
    const inner = await secure(outside, await authority.identity("browser"));
    const records: boolean[] = [];
    outside.on("message", (message: Buffer) => records.push(message.length === 5 + message.readUInt16BE(3)));
    inner.write(hello);
    const channel = await accepted.promise;
    // As the SDK does: what is decrypted of one message is the whole of a frame, or a part of it and of no other.
    const sizes: number[] = [];
    const expected = [1, 0, 16_364, 16_365, 200_000, 0, 70_000, ...Array.from({ length: 50 }, (_, i) => i), 3];
    let partial = Buffer.alloc(0);
    const all = new Promise<void>((resolve) => {
      inner.on("data", (decrypted: Buffer) => {
        partial = Buffer.concat([partial, decrypted]);
        const length = 20 + partial.readUInt32LE(12) + partial.readUInt32LE(16);
        if (partial.length < length) return;
        if (partial.readInt32LE(4) === 80) sizes.push(partial.readUInt32LE(16));
        partial = Buffer.alloc(0);
        if (sizes.length === expected.length) resolve();
      });
    });
    for (const size of expected) channel.send({ contentType: 80, body: Buffer.alloc(size, "y") });
    await all;
    expect(sizes).toEqual(expected);
    expect(records).not.toContain(false);
  });

  it("has small frames wait for none before: they leave in fewer records of the connection below than there are", async () => {
    await listen();
    const way = await countingWay();
    const outside = await openWebSocket("/ws", way.port);
    let messages = 0;
    outside.on("message", () => messages++);
    const inner = await secure(outside, await authority.identity("browser"));
    inner.write(hello);
    const channel = await accepted.promise;
    await once(inner, "data");
    const before = { messages, records: way.records() };
    const frames = 1_000;
    let missing = frames * 20;
    const all = new Promise<void>((resolve) => {
      inner.on("data", (chunk: Buffer) => {
        missing -= chunk.length;
        if (missing === 0) resolve();
      });
    });
    for (let i = 0; i < frames; i++) channel.send({ contentType: 80, body: Buffer.alloc(0) });
    await all;
    expect(messages - before.messages).toBe(frames);
    expect(way.records() - before.records).toBeLessThan(frames * 0.9);
  });

  it("sends what is queued when it closes the channel", async () => {
    await listen();
    const outside = await openWebSocket();
    const inner = await secure(outside, await authority.identity("browser"));
    inner.write(hello);
    const channel = await accepted.promise;
    await once(inner, "data");
    let got = 0;
    inner.on("data", (chunk: Buffer) => {
      got += chunk.length;
    });
    const gone = once(outside, "close");
    for (let i = 0; i < 500; i++) channel.send({ contentType: 80, body: Buffer.alloc(i) });
    channel.close();
    await gone;
    expect(got).toBe(500 * 20 + (499 * 500) / 2);
  });

  it.each(["//", "http://[", "/ws/../%"])("refuses the path %j, and goes on", async (path) => {
    await listen();
    const socket = connect({ host: "localhost", port: port.port, servername: "localhost", ca: authority.certPem });
    clients.push(socket);
    socket.on("error", () => {});
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    );
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString("latin1")).toMatch(/^HTTP\/1\.1 40[04] /);
    await openWebSocket();
  });

  it("ends SDKs without a client certificate inside", async () => {
    await listen();
    const outside = await openWebSocket();
    const inner = await secure(outside, undefined);
    const gone = once(outside, "close");
    inner.write(hello);
    await gone;
  });

  it("serves nothing but the web socket, and no client once no user accepts", async () => {
    await listen();
    const status = await new Promise<number | undefined>((resolve, reject) => {
      get({ host: "localhost", port: port.port, path: "/", ca: authority.certPem }, (answer) =>
        resolve(answer.resume().statusCode),
      ).on("error", reject);
    });
    expect(status).toBe(404);
    await expect(openWebSocket("/other")).rejects.toThrow("404");
    stopAccepting();
    await expect(openWebSocket()).rejects.toThrow("404");
  });

  it("shows browsers a certificate of its own when it has one, and follows changes", async () => {
    const elsewhere = await TestAuthority.create("public");
    await listen({}, await elsewhere.identity("public"));
    const shown = async () => {
      const socket = connect({ host: "localhost", port: port.port, rejectUnauthorized: false });
      clients.push(socket);
      await once(socket, "secureConnect");
      return socket.getPeerX509Certificate()?.issuer;
    };
    expect(await shown()).toBe("CN=public");
    port.setIdentity(await authority.identity("router1"));
    expect(await shown()).toBe("CN=public");
    port.setOuterIdentity(await (await TestAuthority.create("renewed")).identity("public"));
    expect(await shown()).toBe("CN=renewed");
  });

  it("ends web sockets that answer no ping, and connections that do not become one", async () => {
    await listen({ pingInterval: 0.02, pongTimeout: 0.02, handshakeTimeout: 2 });
    const deaf = new WebSocket(`wss://localhost:${port.port}/ws`, { ca: authority.certPem, autoPong: false });
    await once(deaf, "open");
    await once(deaf, "close");
    const silent = connectTcp(port.port, "127.0.0.1");
    clients.push(silent);
    silent.on("error", () => {}).resume();
    await once(silent, "close");
  });

  // Node looks for late requests every 30 s unless it is told otherwise.
  it("ends connections whose request never ends", { timeout: 15_000 }, async () => {
    await listen({ handshakeTimeout: 1 });
    const half = connect({ host: "localhost", port: port.port, servername: "localhost", ca: authority.certPem });
    clients.push(half);
    half.on("error", () => {}).resume();
    half.write("GET /ws HTTP/1.1\r\nHost: localhost\r\n");
    await once(half, "close");
  });

  it.each([
    ["compressed messages", Buffer.from([0xc2, 0x81, 0, 0, 0, 0, 0])],
    ["messages that are too long", Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0])],
    [
      "more fragments than a message may have",
      Buffer.concat([
        Buffer.from([0x02, 0x80, 0, 0, 0, 0]),
        ...Array(20_000).fill(Buffer.from([0x00, 0x81, 0, 0, 0, 0, 0])),
      ]),
    ],
    ["control frames that are too long", Buffer.from([0x89, 0xfe, 0, 126, 0, 0, 0, 0])],
  ])("ends clients that send %s, and goes on", async (_, bytes) => {
    await listen();
    const outside = await openWebSocket();
    const gone = once(outside, "close");
    // Below what `ws` would send itself.
    (outside as unknown as { _socket: TLSSocket })._socket.write(bytes);
    await gone;
    await openWebSocket();
  });
});
