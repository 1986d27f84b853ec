import { createHash } from "node:crypto";
import { once } from "node:events";
import type { Socket } from "node:net";
import { pseudoRandom, startTcpServer, type TcpServer, writePseudoRandom } from "./bytes.ts";

const ORDER = /^(put|get) (\d+) (\d+)\n$/;

/**
 * A server for transfers in one direction. A client says `put <seed> <length>` or `get <seed> <length>` in a line of its
 * own, then so many bytes go in that direction, and then comes the next order; a `put` is answered with their SHA-256 in hex. Nobody half closes.
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
    if (what === "get") await writePseudoRandom(socket, Number(seed), Number(length));
    else if (what === "put") socket.write(await digestOf(socket, Number(length), () => socket.write("go\n")));
    else throw new Error("an order was expected");
  }
}

/** What comes next; both sides wait for one another, so that a line never comes with anything else. */
async function lineOf(socket: Socket): Promise<string> {
  const [bytes] = (await once(socket, "data")) as [Buffer];
  return bytes.toString("latin1");
}

/** Sends `length` bytes to a `startOneWay`; rejects when others arrived. */
export async function upload(socket: Socket, seed: number, length: number): Promise<void> {
  socket.write(`put ${seed} ${length}\n`);
  // The order has arrived alone.
  await lineOf(socket);
  const answered = lineOf(socket);
  const sent = await writePseudoRandom(socket, seed, length);
  const arrived = await answered;
  socket.end();
  if (arrived !== sent) throw new Error(`the ${length} bytes that arrived are not the ones that were sent`);
}

/** Gets `length` bytes of a `startOneWay`; rejects when they are not the right ones. */
export async function download(socket: Socket, seed: number, length: number): Promise<void> {
  const arrived = await digestOf(socket, length, () => socket.write(`get ${seed} ${length}\n`));
  socket.end();
  const expected = createHash("sha256");
  for (const bytes of pseudoRandom(seed, length)) expected.update(bytes);
  if (arrived !== expected.digest("hex")) throw new Error(`the ${length} bytes that arrived are not the right ones`);
}

/** The SHA-256 in hex of the next `length` bytes, which come after `start`. */
async function digestOf(socket: Socket, length: number, start: () => void): Promise<string> {
  const hash = createHash("sha256");
  let left = length;
  const all = new Promise<void>((resolve, reject) => {
    const take = (bytes: Buffer): void => {
      hash.update(bytes);
      left -= bytes.length;
      if (left > 0) return;
      socket.off("data", take);
      resolve();
    };
    socket.on("data", take);
    socket.once("close", () => reject(new Error(`the stream was closed with ${left} of ${length} bytes to come`)));
  });
  start();
  await all;
  return hash.digest("hex");
}
