import { createHash } from "node:crypto";
import { once } from "node:events";
import { connect as connectTcp, createServer as createTcpServer, type Socket } from "node:net";
import { connect, createServer, type TLSSocket } from "node:tls";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Identity } from "../identity/identity.ts";
import { TestAuthority } from "../testing/authority.ts";
import { DisturbedWay } from "../testing/disturbed-way.ts";
import { type ReadMode, SocketReader } from "./socket-reader.ts";

const MEGABYTES = 6;

let identity: Identity;
const closers: (() => void)[] = [];

beforeAll(async () => {
  identity = await (await TestAuthority.create()).identity("reader");
});
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** A TLS connection on the loopback: the end that dialled, with the options given, and the end that was accepted. */
async function tlsPair(
  dialOptions: object = {},
): Promise<{ dialled: TLSSocket; accepted: TLSSocket; garble: () => void }> {
  const server = createServer({ cert: identity.certPem, key: identity.keyPem });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => server.close());
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const incoming = once(server, "secureConnection");
  const way = await DisturbedWay.start(address.port);
  closers.push(() => way.close());
  const dialled = connect({
    port: way.port,
    host: "127.0.0.1",
    secureContext: identity.clientContext(),
    ...dialOptions,
  });
  await once(dialled, "secureConnect");
  const [accepted] = (await incoming) as [TLSSocket];
  closers.push(
    () => accepted.destroy(),
    () => dialled.destroy(),
  );
  return { dialled, accepted, garble: () => way.garble() };
}

/** Sends pseudo-random bytes in pieces of many sizes and ends; resolves with their hash. */
async function sendMegabytes(socket: Socket): Promise<string> {
  const hash = createHash("sha256");
  let seed = 1;
  let left = MEGABYTES * 1_000_000;
  while (left > 0) {
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff;
    const piece = Buffer.alloc(Math.min(left, 1 + (seed % 70_000)), seed);
    piece.writeUInt8(seed & 0xff, 0);
    hash.update(piece);
    left -= piece.length;
    if (!socket.write(piece)) await once(socket, "drain");
  }
  socket.end();
  return hash.digest("hex");
}

/** Reads to the end, stopping and going on again every so often. */
async function receive(
  reader: SocketReader,
  socket: Socket,
): Promise<{ hash: string; bytes: number; longest: number }> {
  const hash = createHash("sha256");
  let bytes = 0;
  let longest = 0;
  let reads = 0;
  await new Promise<void>((resolve) => {
    reader.onClosed(() => resolve());
    reader.deliver((buffer, length) => {
      hash.update(buffer.subarray(0, length));
      bytes += length;
      longest = Math.max(longest, length);
      reads++;
      if (reads % 16 === 0) {
        socket.pause();
        setImmediate(() => socket.resume());
      }
    });
  });
  return { hash: hash.digest("hex"), bytes, longest };
}

describe("a socket", () => {
  test("that was dialled is read into the shared buffer, through pauses, to its end", async () => {
    const reader = new SocketReader();
    const { dialled, accepted } = await tlsPair({ onread: reader.onread });
    reader.useDialled(dialled);
    const [sent, got] = await Promise.all([sendMegabytes(accepted), receive(reader, dialled)]);
    expect(reader.mode).toBe("shared");
    expect(got.hash).toBe(sent);
    expect(got.bytes).toBe(MEGABYTES * 1_000_000);
    expect(got.longest).toBeLessThanOrEqual(64 * 1024);
  });

  test.each<[ReadMode]>([["shared"], ["data"]])("that was accepted gives the same bytes in mode %s", async (mode) => {
    const { dialled, accepted } = await tlsPair();
    const reader = new SocketReader();
    reader.useExisting(accepted, mode);
    const [sent, got] = await Promise.all([sendMegabytes(dialled), receive(reader, accepted)]);
    // The parts used are not public: this fails when a version of Node has lost them, and everything else still works.
    expect(reader.mode).toBe(mode);
    expect(got.hash).toBe(sent);
    expect(got.bytes).toBe(MEGABYTES * 1_000_000);
  });

  test("that was accepted without TLS is read into the shared buffer, too", async () => {
    const server = createTcpServer({ pauseOnConnect: true }).listen(0, "127.0.0.1");
    await once(server, "listening");
    closers.push(() => server.close());
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    const incoming = once(server, "connection");
    const dialled = connectTcp(address.port, "127.0.0.1");
    const [accepted] = (await incoming) as [Socket];
    closers.push(
      () => accepted.destroy(),
      () => dialled.destroy(),
    );
    const reader = new SocketReader();
    reader.useExisting(accepted);
    const [sent, got] = await Promise.all([sendMegabytes(dialled), receive(reader, accepted)]);
    expect(reader.mode).toBe("shared");
    expect(got.hash).toBe(sent);
  });
});

test("two sockets read at the same time do not disturb each other", async () => {
  const pairs = await Promise.all([tlsPair(), tlsPair()]);
  const results = await Promise.all(
    pairs.map(async ({ dialled, accepted }) => {
      const reader = new SocketReader();
      reader.useExisting(accepted);
      const [sent, got] = await Promise.all([sendMegabytes(dialled), receive(reader, accepted)]);
      return sent === got.hash;
    }),
  );
  expect(results).toEqual([true, true]);
});

test("bytes that come before a receiver is ready are kept and delivered first", async () => {
  const { dialled, accepted } = await tlsPair();
  const reader = new SocketReader();
  reader.useExisting(accepted);
  const first = Promise.withResolvers<void>();
  let text = "";
  reader.deliver((buffer, length) => {
    text += buffer.toString("latin1", 0, length);
    reader.hold(Buffer.from("rest,"));
    first.resolve();
  });
  dialled.write("one,");
  await first.promise;
  dialled.write("two,");
  dialled.end("three");
  await once(dialled, "finish");
  const all = await new Promise<string>((resolve) => {
    reader.deliver((buffer, length) => {
      text += buffer.toString("latin1", 0, length);
    });
    reader.onClosed(() => resolve(text));
  });
  expect(all).toBe("one,rest,two,three");
});

test("a client that sends without end before a receiver is ready is cut off", async () => {
  const { dialled, accepted } = await tlsPair();
  const reader = new SocketReader();
  reader.useExisting(accepted);
  reader.hold(Buffer.alloc(256 * 1024));
  expect(accepted.destroyed).toBe(false);
  reader.hold(Buffer.alloc(1));
  expect(accepted.destroyed).toBe(true);
  dialled.destroy();
});

test.each<[ReadMode]>([["shared"], ["data"]])(
  "in mode %s, a connection ends at both ends when what arrives cannot be decrypted",
  async (mode) => {
    const theirs = new SocketReader();
    const { dialled, accepted, garble } = await tlsPair({ onread: theirs.onread });
    theirs.useDialled(dialled);
    const ours = new SocketReader();
    ours.useExisting(accepted, mode);
    const ends = [theirs, ours].map(async (reader) => {
      reader.deliver(() => {});
      return await new Promise<Error | undefined>((resolve) => reader.onClosed(resolve));
    });
    garble();
    const [there, here] = await Promise.all(ends);
    expect(here?.message).toMatch(/bad record mac/);
    // The end that hears of it by an alert is as broken.
    expect(there?.message).toMatch(/alert bad record mac/);
    expect([dialled.destroyed, accepted.destroyed]).toEqual([true, true]);
  },
);
