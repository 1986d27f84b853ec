import type { IncomingMessage } from "node:http";

/** For a caller to read its answer, and to stop sending. */
const LINGER_MS = 1_000;

/**
 * Lets a connection end so that its caller gets the answer to a request that has not arrived whole: a socket that is closed resets the
 * connection for what still comes, and a caller that is sending would see that instead (RFC 9112, section 9.6). Our side ends at once, the
 * other one when the caller has ended it, or after a while; what comes until then is thrown away.
 */
export function closeInStages(message: IncomingMessage): void {
  const { socket } = message;
  // What node:http calls behind the last answer.
  socket.destroySoon = () => {
    socket.end();
    message.resume();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
    socket.once("close", () => clearTimeout(timer));
  };
}
