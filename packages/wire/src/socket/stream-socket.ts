import type { Duplex } from "node:stream";

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
   * Has bytes given to `take`, valid during the call only, that nobody has to keep: the socket flows, and nothing is before
   * them. Others come with 'data' events, as copies.
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
