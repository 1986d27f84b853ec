import { createHash } from "node:crypto";
import { once } from "node:events";
import type { Socket } from "node:net";
import { failure, pseudoRandom, receiveNext, startTcpServer, type TcpServer, writePseudoRandom } from "./bytes.ts";

const ORDER = /^(put|get) (\d+) (\d+)\n$/;

/**
 * A server for transfers in one direction. A client says `put <seed> <length>` or `get <seed> <length>` in a line of its
 * own, then so many bytes go in that direction, and then comes the next order; a `put` is answered with `go` first and
 * with their SHA-256 in hex at the end. Neither end half closes.
 */
export async function startOneWay(): Promise<TcpServer> {
  return await startTcpServer((socket) => {
    answer(socket).catch(() => socket.destroy());
  });
}

async function answer(socket: Socket): Promise<void> {
  // Every transfer watches for the end of the stream.
  socket.setMaxListeners(0);
  for (;;) {
    const [, what, seed, length] = ORDER.exec(await lineOf(socket)) ?? [];
    if (what === "get") {
      await writePseudoRandom(socket, Number(seed), Number(length));
    } else if (what === "put") {
      const arrived = receiveNext(socket, Number(length));
      socket.write("go\n");
      socket.write((await arrived).sha256);
    } else {
      throw new Error("an order was expected");
    }
  }
}

/** What comes next; both sides wait for one another, so that a line never comes with anything else. */
async function lineOf(socket: Socket): Promise<string> {
  const ended = once(socket, "end").then(() => Promise.reject(new Error("the stream ended before its bytes")));
  const [bytes] = (await Promise.race([once(socket, "data"), ended, failure(socket)])) as [Buffer];
  return bytes.toString("latin1");
}

/** Sends `length` bytes to a `startOneWay`; rejects when others arrived, or the stream broke. */
export async function upload(socket: Socket, seed: number, length: number): Promise<void> {
  socket.write(`put ${seed} ${length}\n`);
  // The order has arrived alone.
  await lineOf(socket);
  const [sent, arrived] = await Promise.all([writePseudoRandom(socket, seed, length), lineOf(socket)]);
  socket.end();
  if (arrived !== sent) throw new Error(`the ${length} bytes that arrived are not the ones that were sent`);
}

/** Gets `length` bytes of a `startOneWay`; rejects when they are not the right ones, or the stream broke. */
export async function download(socket: Socket, seed: number, length: number): Promise<void> {
  socket.write(`get ${seed} ${length}\n`);
  const { sha256 } = await receiveNext(socket, length);
  socket.end();
  const expected = createHash("sha256");
  for (const bytes of pseudoRandom(seed, length)) expected.update(bytes);
  if (sha256 !== expected.digest("hex")) throw new Error(`the ${length} bytes that arrived are not the right ones`);
}
