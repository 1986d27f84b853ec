import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect as connectTcp, Server } from "node:net";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { Worker } from "node:worker_threads";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { dialChannel } from "../../channel/dialer.ts";
import { acceptChannels } from "../../channel/listener.ts";
import { type Identity, identityFromPem } from "../../identity/identity.ts";
import { silentLogger } from "../../log.ts";
import { TestAuthority } from "../../testing/authority.ts";
import { DisturbedWay } from "../../testing/disturbed-way.ts";
import { RecordingLogger } from "../../testing/recording-logger.ts";
import type { SecureSocket } from "../stream-socket.ts";
import { TlsPort } from "../tls-port.ts";
import { ThreadPort } from "./thread-port.ts";

const MIB = 1024 * 1024;

let authority: TestAuthority;
let identity: Identity;
let client: Identity;
let port: ThreadPort;
const dialled: TLSSocket[] = [];

beforeAll(async () => {
  authority = await TestAuthority.create();
  identity = await authority.identity("rtr");
  client = await authority.identity("cli");
});
afterEach(async () => {
  for (const socket of dialled.splice(0)) socket.destroy();
  await port.close();
});

async function listen(threads: number, own: Partial<Parameters<typeof ThreadPort.listen>[0]> = {}): Promise<void> {
  port = await ThreadPort.listen({ host: "127.0.0.1", port: 0, identity, threads, handshakeTimeoutMs: 5_000, ...own });
}

function serve(onSocket: (socket: SecureSocket) => void): () => void {
  return port.register({
    name: "edge",
    protocols: ["ziti-edge"],
    acceptsNoAlpn: true,
    onSocket: (socket) => {
      socket.on("error", () => {});
      onSocket(socket);
    },
  });
}

const echo = (): (() => void) => serve((socket) => void socket.pipe(socket));

async function dial(options: ConnectionOptions = {}): Promise<TLSSocket> {
  const { certPem: cert, keyPem: key } = client;
  const socket = connect({ host: "127.0.0.1", port: port.port, ca: authority.certPem, cert, key, ...options });
  dialled.push(socket);
  socket.on("error", () => {});
  await once(socket, "secureConnect");
  return socket;
}

/** Sends so many random bytes, and ends; resolves with whether the same came back. */
async function echoes(socket: TLSSocket, bytes: number): Promise<boolean> {
  const [sent, got] = [createHash("sha1"), createHash("sha1")];
  socket.on("data", (chunk: Buffer) => got.update(chunk));
  const closed = once(socket, "close");
  for (let left = bytes; left > 0; left -= 100_000) {
    const chunk = randomBytes(Math.min(left, 100_000));
    sent.update(chunk);
    if (!socket.write(chunk)) await Promise.race([once(socket, "drain"), closed]);
  }
  socket.end();
  await closed;
  return sent.digest("hex") === got.digest("hex");
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** The threads that were started while this runs. */
async function workersOf(start: () => Promise<void>): Promise<Worker[]> {
  const spy = vi.spyOn(Worker.prototype, "postMessage");
  await start();
  echo();
  await until(() => new Set(spy.mock.contexts).size === port.connections.length);
  const workers = [...new Set(spy.mock.contexts)] as Worker[];
  spy.mockRestore();
  return workers;
}

/** Connections at both of two threads. */
async function dialBoth(): Promise<TLSSocket[]> {
  const sockets: TLSSocket[] = [];
  while (port.connections.length < 2 || port.connections.some((count) => count === 0)) {
    sockets.push(await dial());
    await until(() => port.connections.reduce((sum, count) => sum + count) === sockets.length);
  }
  return sockets;
}

describe("a port with threads", () => {
  test("spreads connections over them and carries megabytes both ways", async () => {
    await listen(2);
    echo();
    const sockets = await dialBoth();
    while (sockets.length < 12) sockets.push(await dial({ ALPNProtocols: ["ziti-edge"] }));
    expect(await Promise.all(sockets.map((socket) => echoes(socket, 3 * MIB)))).toEqual(sockets.map(() => true));
    await until(() => port.connections.every((count) => count === 0));
  });

  test("gives bytes that may be kept to a reader of the socket as any other stream", async () => {
    await listen(1);
    const kept: Buffer[] = [];
    const ended = Promise.withResolvers<void>();
    serve((socket) => {
      socket.on("data", (chunk: Buffer) => void kept.push(chunk));
      socket.once("end", () => ended.resolve());
    });
    const socket = await dial();
    const sent = randomBytes(8 * MIB);
    socket.end(sent);
    await ended.promise;
    expect(Buffer.concat(kept).equals(sent)).toBe(true);
  });

  test("carries channels, whose acceptor sees who the client is", async () => {
    await listen(1);
    const intermediate = await TestAuthority.create("Between", authority);
    const leaf = await intermediate.issue({ commonName: "sdk" });
    const chain = identityFromPem({ ...leaf, certPem: leaf.certPem + intermediate.certPem, caPem: authority.certPem });
    const seen: string[][] = [];
    acceptChannels(port, {
      name: "edge",
      protocols: ["ziti-edge"],
      acceptsNoAlpn: true,
      id: "rtr",
      log: silentLogger,
      onChannel: (channel) => {
        seen.push([channel.peer.address, ...channel.peer.certificates.map(({ subject }) => subject)]);
        channel.handle(70, (message) => channel.reply(message, { contentType: 71, body: message.body }));
      },
    });
    const address = `tls:127.0.0.1:${port.port}`;
    const channel = await dialChannel({ address, identity: chain, alpn: "ziti-edge", hello: { idToken: "me" } });
    const body = randomBytes(MIB);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => channel.request({ contentType: 70, body }, { timeoutMs: 60_000 })),
    );
    expect(answers.every((answer) => answer.body.equals(body))).toBe(true);
    expect(seen).toEqual([[expect.stringMatching(/^127\.0\.0\.1:\d+$/), "CN=sdk", "CN=Between"]]);
    channel.close();
    await until(() => port.connections[0] === 0);
    const anonymous = await dial({ cert: undefined, key: undefined } as ConnectionOptions);
    await once(anonymous.resume(), "close");
  });

  test("shows the certificate asked for by name, and new ones at once", async () => {
    const own = await authority.issue({ commonName: "rtr", dns: ["localhost"] });
    const other = await authority.issue({ commonName: "alt", dns: ["alt.example"] });
    await listen(2, { identity: identityFromPem({ ...own, caPem: authority.certPem, altServerCerts: [other] }) });
    echo();
    const shown = async (servername?: string): Promise<string> => {
      const socket = await dial({ rejectUnauthorized: false, ...(servername === undefined ? {} : { servername }) });
      const name = socket.getPeerCertificate().subject.CN;
      socket.destroy();
      return String(name);
    };
    expect(await Promise.all(["alt.example", "localhost", undefined].map(shown))).toEqual(["alt", "rtr", "rtr"]);
    const [open] = [await dial({ rejectUnauthorized: false })];
    const next = await authority.issue({ commonName: "next", dns: ["localhost"] });
    port.setIdentity(identityFromPem({ ...next, caPem: authority.certPem }));
    await vi.waitFor(async () => {
      const names = await Promise.all(Array.from({ length: 12 }, () => shown("localhost")));
      expect(new Set(names)).toEqual(new Set(["next"]));
    }, 20_000);
    expect(await echoes(open, MIB)).toBe(true);
  });

  test("refuses other protocols, and every client when its user is gone", async () => {
    const log = new RecordingLogger();
    await listen(2, { log });
    const stop = echo();
    expect(() => port.register({ name: "link", protocols: ["x"], acceptsNoAlpn: false, onSocket: () => {} })).toThrow(
      /link and edge both want port/,
    );
    await expect(dial({ ALPNProtocols: ["ziti-link"] })).rejects.toThrow(/no.application.protocol/i);
    await until(() => log.entries.some(({ msg }) => msg === "TLS handshake failed"));
    stop();
    await vi.waitFor(() => expect(dial({ ALPNProtocols: ["ziti-edge"] })).rejects.toThrow(), 10_000);
  });

  test("does not share its address with others, not even with those who would", async () => {
    await listen(1);
    const taken = { host: "127.0.0.1", port: port.port, identity };
    await expect(TlsPort.listen(taken)).rejects.toMatchObject({ code: "EADDRINUSE" });
    await expect(ThreadPort.listen({ ...taken, threads: 2, handshakeTimeoutMs: 5_000 })).rejects.toMatchObject({
      code: "EADDRINUSE",
    });
  });

  test("gives clients that are slow with their handshake no longer than others", async () => {
    const log = new RecordingLogger();
    await listen(1, { handshakeTimeoutMs: 100, log });
    echo();
    const slow = connectTcp(port.port, "127.0.0.1").on("error", () => {});
    await once(slow.resume(), "close");
    await until(() => log.entries.some(({ msg }) => msg === "TLS handshake failed"));
  });

  test("ends a connection when what arrives cannot be decrypted", async () => {
    await listen(1);
    const accepted = Promise.withResolvers<SecureSocket>();
    serve((socket) => accepted.resolve(socket));
    const way = await DisturbedWay.start(port.port);
    await dial({ port: way.port });
    const here = await accepted.promise;
    const failed = new Promise((resolve) => here.resume().once("error", resolve));
    way.garble();
    expect(String(await failed)).toMatch(/bad record mac/);
    await until(() => port.connections[0] === 0);
    way.close();
  });
});

describe("back-pressure through a thread", () => {
  test("a reader here that stops holds up only its client, and gets everything later", async () => {
    await listen(1);
    const accepted: SecureSocket[] = [];
    serve((socket) => {
      if (accepted.push(socket) === 1) socket.pause();
      else socket.pipe(socket);
    });
    const socket = await dial();
    const bytes = randomBytes(64 * MIB);
    let hasLeft = false;
    socket.end(bytes, () => {
      hasLeft = true;
    });
    await until(() => accepted.length === 1);
    const reader = accepted[0] as SecureSocket;
    await until(() => reader.readableLength >= 256 * 1024);
    expect(await echoes(await dial(), 4 * MIB)).toBe(true);
    expect(reader.readableLength).toBeLessThan(512 * 1024);
    expect(hasLeft).toBe(false);
    const got = createHash("sha1");
    reader.on("data", (chunk: Buffer) => got.update(chunk));
    reader.resume();
    await once(reader, "end");
    expect(got.digest("hex")).toBe(createHash("sha1").update(bytes).digest("hex"));
  });

  test("a client that stops reading holds up the writer here", async () => {
    await listen(1);
    let taken = 0;
    serve((socket) => {
      const chunk = Buffer.alloc(MIB);
      for (let i = 0; i < 64; i++) socket.write(chunk, () => taken++);
    });
    const socket = await dial();
    socket.pause();
    let last = -1;
    await vi.waitFor(() => {
      const still = taken === last && taken > 0;
      last = taken;
      expect(still).toBe(true);
    }, 20_000);
    expect(taken).toBeLessThan(32);
    let got = 0;
    socket.on("data", (chunk: Buffer) => {
      got += chunk.length;
    });
    socket.resume();
    await until(() => got === 64 * MIB);
    // The thread's word that it has taken the last one may come after what it took.
    await until(() => taken === 64);
  });

  test("what was written before an end arrives, however soon the socket is destroyed then", async () => {
    await listen(1);
    serve((socket) => socket.end(Buffer.alloc(3 * MIB), () => socket.destroy()));
    const socket = await dial();
    let got = 0;
    socket.on("data", (chunk: Buffer) => {
      got += chunk.length;
    });
    await once(socket, "close");
    expect(got).toBe(3 * MIB);
  });
});

test("a failed accept while the port is held for the threads changes nothing", async () => {
  const listens = vi.spyOn(Server.prototype, "listen");
  const opened = listen(1);
  const [holder] = listens.mock.contexts as Server[];
  listens.mockRestore();
  if (holder === undefined) throw new Error("nothing listens");
  await once(holder, "listening");
  holder.emit("error", new Error("accept EMFILE"));
  await opened;
  echo();
  expect(await echoes(await dial(), 1_000)).toBe(true);
});

describe("a thread that dies", () => {
  test("takes only its own connections along, and comes back", async () => {
    const log = new RecordingLogger();
    const [victim] = await workersOf(() => listen(2, { log }));
    const sockets = await dialBoth();
    const ended = sockets.map((socket) => once(socket.resume(), "close").then(() => socket));
    await victim?.terminate();
    const first = await Promise.race(ended);
    await until(() => port.connections.includes(0));
    const left = port.connections.reduce((sum, count) => sum + count);
    expect(left).toBeGreaterThan(0);
    expect(first.destroyed).toBe(true);
    await until(() => sockets.filter((socket) => !socket.destroyed).length === left);
    const living = sockets.filter((socket) => !socket.destroyed);
    for (const socket of living) expect(await echoes(socket, MIB)).toBe(true);
    await until(() => port.connections.every((count) => count === 0));
    await until(() => log.entries.some(({ msg }) => msg === "a thread for TLS was started again"));
    for (const socket of await dialBoth()) expect(await echoes(socket, MIB)).toBe(true);
    expect(log.entries.filter(({ level }) => level === "error").map(({ msg }) => msg)).toEqual([
      "a thread for TLS ended and its connections with it; it is started again",
    ]);
  });

  test("does not come back once the port is closed, which closes everything", async () => {
    await listen(2);
    const accepted: SecureSocket[] = [];
    serve((socket) => void accepted.push(socket));
    const socket = await dial();
    await until(() => accepted.length === 1);
    // A thread that takes its time is ended, and then the connection has failed here.
    const here = new Promise<void>((resolve) => void accepted[0]?.once("close", () => resolve()));
    const there = once(socket.resume(), "close");
    await port.close();
    await Promise.all([there, here]);
    const refused = connectTcp(port.port, "127.0.0.1");
    await expect(once(refused, "connect")).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });

  test("hears of connections that are cut", async () => {
    await listen(1);
    const accepted = Promise.withResolvers<SecureSocket>();
    serve((socket) => accepted.resolve(socket));
    const below = connectTcp(port.port, "127.0.0.1");
    const { certPem: cert, keyPem: key } = client;
    const socket = connect({ socket: below, ca: authority.certPem, cert, key, host: "localhost" });
    socket.on("error", () => {});
    const here = await accepted.promise;
    const closed = new Promise((resolve) => here.resume().once("close", resolve));
    below.resetAndDestroy();
    await closed;
    await until(() => port.connections[0] === 0);
  });
});
