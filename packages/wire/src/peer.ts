import type { X509Certificate } from "node:crypto";

/** Who is at the other end of a TLS connection, as far as the handshake proved it: only the leaf's key is proven. */
export interface Peer {
  /** `ip:port`, IPv6 in brackets. */
  readonly address: string;
  /** Leaf first, then what it presented as its chain. Empty when the peer presented none. */
  readonly certificates: readonly X509Certificate[];
  /** SHA-1 of the leaf's DER, 40 lower-case hex digits; absent without a certificate. */
  readonly fingerprint?: string;
}
