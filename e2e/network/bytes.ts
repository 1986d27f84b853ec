import { createCipheriv, createHash, type Hash } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { Duplex } from "node:stream";

const CHUNK_LENGTH = 64 * 1024;

/** Endless bytes that look random and are the same for the same seed; a lost, doubled or swapped byte changes any digest of them. */
export function* pseudoRandom(seed: number, length: number): Generator<Buffer> {
  const cipher = createCipheriv("aes-128-ctr", Buffer.alloc(16, seed), Buffer.alloc(16));
  const zeros = Buffer.alloc(CHUNK_LENGTH);
  for (let left = length; left > 0; left -= CHUNK_LENGTH) {
    yield cipher.update(left >= CHUNK_LENGTH ? zeros : zeros.subarray(0, left));
  }
}

/** Writes them with back pressure, then half closes; resolves with their SHA-256 in hex. */
export async function sendPseudoRandom(stream: Duplex, seed: number, length: number): Promise<string> {
  const sha256 = await writePseudoRandom(stream, seed, length);
  stream.end();
  return sha256;
}

/** As `sendPseudoRandom`, without the half close. */
export async function writePseudoRandom(stream: Duplex, seed: number, length: number): Promise<string> {
  const hash = createHash("sha256");
  const broken = failure(stream);
  for (const chunk of pseudoRandom(seed, length)) {
    hash.update(chunk);
    if (!stream.write(chunk)) await Promise.race([once(stream, "drain"), broken]);
  }
  return hash.digest("hex");
}

/** Reads to the end; resolves with the length and the SHA-256 in hex. Rejects when the stream breaks before its end. */
export async function receive(stream: Duplex): Promise<{ length: number; sha256: string }> {
  const hash: Hash = createHash("sha256");
  let length = 0;
  stream.on("data", (chunk: Buffer) => {
    length += chunk.length;
    hash.update(chunk);
  });
  // Not `once(…)`: its promise settles some microtasks late, behind a `close` that comes in the same tick.
  await Promise.race([new Promise((resolve) => stream.once("end", resolve)), failure(stream)]);
  return { length, sha256: hash.digest("hex") };
}

/** Sends `length` bytes and expects the same back from an echo at the other end; both directions run at once and are half closed. */
export async function exchange(stream: Duplex, seed: number, length: number): Promise<void> {
  const [sent, received] = await Promise.all([sendPseudoRandom(stream, seed, length), receive(stream)]);
  if (received.length !== length) throw new Error(`${received.length} of ${length} bytes came back`);
  if (received.sha256 !== sent) throw new Error(`the ${length} bytes that came back are not the ones that were sent`);
}

/** As `exchange`, but ends the stream only when every byte is back: for an echo that loses what is still under way when it closes. */
export async function exchangeThenEnd(stream: Duplex, seed: number, length: number): Promise<void> {
  await exchangeSome(stream, seed, length);
  stream.end();
}

/** As `exchange`, and the stream stays open. */
export async function exchangeSome(stream: Duplex, seed: number, length: number): Promise<void> {
  const [sent, received] = await Promise.all([writePseudoRandom(stream, seed, length), receiveNext(stream, length)]);
  if (received.length !== length || received.sha256 !== sent) {
    throw new Error(`the ${received.length} bytes that came back are not the ${length} that were sent`);
  }
}

/**
 * Reads until `length` bytes are there, from when it is called, and goes on with the stream open; resolves with how many came and their SHA-256 in hex.
 * Rejects when the stream breaks, ends or is closed before.
 */
export async function receiveNext(stream: Duplex, length: number): Promise<{ length: number; sha256: string }> {
  const hash = createHash("sha256");
  let count = 0;
  const all = Promise.withResolvers<void>();
  const take = (chunk: Buffer): void => {
    hash.update(chunk);
    count += chunk.length;
    if (count >= length) all.resolve();
  };
  const fail = (): void => all.reject(new Error(`the stream ended after ${count} of ${length} bytes`));
  stream.on("data", take).once("end", fail);
  await Promise.race([all.promise, failure(stream)]);
  stream.off("data", take).off("end", fail);
  return { length: count, sha256: hash.digest("hex") };
}

/** Rejects when the stream breaks or is closed. */
export function failure(stream: Duplex): Promise<never> {
  const promise = new Promise<never>((_, reject) => {
    stream.once("error", reject);
    stream.once("close", () =>
      reject(new Error(stream.readableEnded ? "the stream was closed" : "the stream was closed before its end")),
    );
  });
  promise.catch(() => {});
  return promise;
}

export interface TcpServer {
  readonly port: number;
  /** Connections that are open now. */
  readonly open: ReadonlySet<Socket>;
  close(): Promise<void>;
}

/** A TCP server on the loopback that hands every connection (half open allowed) to `onConnection`. */
export async function startTcpServer(onConnection: (socket: Socket) => void): Promise<TcpServer> {
  const open = new Set<Socket>();
  const server: Server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    open.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => open.delete(socket));
    onConnection(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as { port: number }).port,
    open,
    close: async () => {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Sends back what it gets, and its end when the other side ended. */
export async function startEcho(): Promise<TcpServer> {
  return await startTcpServer((socket) => socket.pipe(socket));
}

export async function openTcp(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
  await once(socket, "connect");
  // A connection that is reset while it has no listener fails its next user, not the whole process.
  return socket.on("error", () => {});
}
