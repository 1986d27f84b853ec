import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";

/** How long a socket may take to send its last bytes. */
const LINGER_MS = 10_000;

/** Ends a socket so that a cut stream is not taken for a whole one. TLS has no reset, but its end is not said either. */
export function cutSocket(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy();
  else socket.resetAndDestroy();
}

/** Lets a socket whose end was said send its last bytes; what still comes is dropped, so that the other end is seen. */
export function lingerSocket(socket: Socket): void {
  const linger = setTimeout(() => socket.destroy(), LINGER_MS);
  linger.unref();
  socket.once("close", () => clearTimeout(linger));
  socket.resume();
}
