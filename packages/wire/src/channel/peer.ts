import { X509Certificate } from "node:crypto";
import { formatHostPort, plainAddress } from "../address.ts";
import { fingerprint } from "../identity/certificates.ts";
import type { PresentedCertificate, SecureSocket, SocketAddresses } from "../socket/stream-socket.ts";

/** Who is at the other end of a TLS connection, as far as the handshake proved it: only the leaf's key is proven. */
export interface Peer {
  /** `ip:port`, IPv6 in brackets. */
  readonly address: string;
  /** Leaf first, then what else was presented, in any order. Empty when the peer presented none. */
  readonly certificates: readonly X509Certificate[];
  /** SHA-1 of the leaf's DER, 40 lower-case hex digits; absent without a certificate. */
  readonly fingerprint?: string;
}

const MAX_CHAIN = 10;

/** The other end of a socket whose handshake is done. */
export function peerOf(socket: SecureSocket): Peer {
  const certificates = presentedChain(socket);
  const [leaf] = certificates;
  const address = remoteAddress(socket);
  return leaf === undefined ? { address, certificates } : { address, certificates, fingerprint: fingerprint(leaf) };
}

/** `ip:port` of a socket's other end, IPv6 in brackets; `unknown` once it is gone. */
export function remoteAddress(socket: SocketAddresses): string {
  return hostAndPort(socket.remoteAddress, socket.remotePort);
}

/** The IP of a peer's `ip:port`. */
export function ipOf(address: string): string {
  return address.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
}

/** `ip:port` of a socket's own end, like `remoteAddress`. */
export function localAddress(socket: SocketAddresses): string {
  return hostAndPort(socket.localAddress, socket.localPort);
}

function hostAndPort(ip: string | undefined, port: number | undefined): string {
  if (ip === undefined || port === undefined) return "unknown";
  return formatHostPort({ host: plainAddress(ip), port });
}

/**
 * Every certificate that the peer sent, in that order: the leaf is first, the others may be in any order.
 * (`getPeerCertificate` loses those that are not in order.)
 */
function presentedChain(socket: SecureSocket): X509Certificate[] {
  const chain: X509Certificate[] = [];
  let next: PresentedCertificate | undefined = socket.getPeerX509Certificate();
  while (next !== undefined && chain.length < MAX_CHAIN) {
    const { raw } = next;
    if (!chain.some((known) => known.raw.equals(raw))) chain.push(new X509Certificate(raw));
    next = next.issuerCertificate;
  }
  return chain;
}
