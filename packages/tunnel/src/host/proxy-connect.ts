import type { Socket } from "node:net";
import { hostPort } from "../config/template.ts";

const MAX_HEAD = 16 * 1024;

/**
 * Asks an HTTP proxy at the other end of `socket` for a connection to a target (CONNECT). The socket stays paused; what
 * the target sent right away is put back into it.
 *
 * @throws Error with the proxy's status line
 */
export async function connectThroughProxy(
  socket: Socket,
  target: { readonly host: string; readonly port: number },
  signal: AbortSignal,
): Promise<void> {
  const authority = hostPort(target.host, target.port);
  // A name that ends a line would be a request of its own.
  if (!/^[!-~]+$/.test(authority))
    throw new Error(`${JSON.stringify(target.host)} is no host to ask an http proxy for`);
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
  const head = await readHead(socket, signal);
  const [statusLine = ""] = head.split("\r\n", 1);
  if (!/^HTTP\/1\.[01] 2\d\d\b/.test(statusLine)) {
    throw new Error(`the http proxy refused: ${JSON.stringify(statusLine.slice(0, 200))}`);
  }
}

function readHead(socket: Socket, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    let bytes: Buffer = Buffer.alloc(0);
    const settle = (act: () => void) => {
      socket.off("readable", onReadable).off("end", onEnd).off("close", onEnd);
      signal.removeEventListener("abort", onAbort);
      act();
    };
    const onReadable = () => {
      for (let chunk: unknown = socket.read(); Buffer.isBuffer(chunk); chunk = socket.read()) {
        bytes = Buffer.concat([bytes, chunk]);
      }
      const end = bytes.indexOf("\r\n\r\n");
      if (end >= 0) {
        const rest = bytes.subarray(end + 4);
        settle(() => {
          socket.pause();
          if (rest.length > 0) socket.unshift(rest);
          resolve(bytes.toString("latin1", 0, end));
        });
      } else if (bytes.length > MAX_HEAD) {
        settle(() => reject(new Error(`the http proxy's answer has no end within ${MAX_HEAD} bytes`)));
      }
    };
    const onEnd = () => settle(() => reject(new Error("the http proxy closed the connection")));
    const onAbort = () => settle(() => reject(signal.reason));
    socket.on("readable", onReadable).on("end", onEnd).on("close", onEnd);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}
