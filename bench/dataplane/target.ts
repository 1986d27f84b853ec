/**
 * The TCP server at the far end of a measured path, a process of its own: `node target.ts` prints the port it listens on.
 *
 * A connection begins with one command byte: `e` echoes everything that follows; `u` and a length (8 bytes, big endian)
 * swallows that many bytes and answers with one byte; `d` and a length sends that many bytes and ends; `s` reads nothing
 * more.
 */
import { createServer, type Socket } from "node:net";

const CHUNK = Buffer.alloc(65_536, 0x5a);

const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
  let head: Buffer = Buffer.alloc(0);
  socket.on("error", () => socket.destroy());
  const onHead = (chunk: Buffer): void => {
    head = Buffer.concat([head, chunk]);
    const command = String.fromCharCode(head[0] ?? 0);
    if (command === "e") {
      socket.off("data", onHead);
      socket.write(head.subarray(1));
      socket.pipe(socket);
    } else if (command === "s") {
      socket.off("data", onHead);
      socket.pause();
    } else if (head.length >= 9) {
      socket.off("data", onHead);
      const length = Number(head.readBigUInt64BE(1));
      if (command === "u") swallow(socket, length, head.length - 9);
      else void send(socket, length);
    }
  };
  socket.on("data", onHead);
});

function swallow(socket: Socket, length: number, already: number): void {
  let received = already;
  const take = (chunk?: Buffer): void => {
    received += chunk?.length ?? 0;
    if (received >= length) socket.end("k");
  };
  socket.on("data", take);
  take();
}

async function send(socket: Socket, length: number): Promise<void> {
  for (let left = length; left > 0 && !socket.destroyed; left -= CHUNK.length) {
    const chunk = left >= CHUNK.length ? CHUNK : CHUNK.subarray(0, left);
    if (!socket.write(chunk)) await new Promise<void>((resolve) => socket.once("drain", resolve));
  }
  socket.end();
}

server.listen(0, "127.0.0.1", () => console.log(`port ${(server.address() as { port: number }).port}`));
