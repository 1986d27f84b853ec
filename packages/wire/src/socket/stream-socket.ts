import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";

/** The two ends of a connection, as sockets tell them. */
export interface SocketAddresses {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
}

/** What a channel needs of a connection: a socket of Node, or what another thread does the work of one for. */
export type StreamSocket = Duplex & SocketAddresses & Partial<InPlaceSocket>;

/** A socket whose bytes lie in memory that others use again. */
export interface InPlaceSocket {
  /**
   * Has bytes given to `take`, valid during the call only, while the socket flows and nothing waits before them. Others come
   * with 'data' events, as copies.
   */
  readInPlace(take: (bytes: Buffer) => void): void;
}

/** A certificate as it was presented, and the one that came after it. */
export interface PresentedCertificate {
  /** DER. */
  readonly raw: Buffer;
  readonly issuerCertificate?: PresentedCertificate | undefined;
}

/** A connection whose TLS handshake is done. */
export type SecureSocket = StreamSocket & { getPeerX509Certificate(): PresentedCertificate | undefined };

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
