import type { Duplex } from "node:stream";

/** The two ends of a connection, as sockets tell them. */
export interface SocketAddresses {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
}

/** What a channel needs of a connection: a socket of Node, or what another thread does the work of one for. */
export type StreamSocket = Duplex & SocketAddresses;

/** A certificate as it was presented, and the one that came after it. */
export interface PresentedCertificate {
  /** DER. */
  readonly raw: Buffer;
  readonly issuerCertificate?: PresentedCertificate | undefined;
}

/** A connection whose TLS handshake is done. */
export type SecureSocket = StreamSocket & { getPeerX509Certificate(): PresentedCertificate | undefined };
