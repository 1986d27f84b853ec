import { X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { fingerprint } from "../identity/certificates.ts";

/** Who is at the other end of a TLS connection, as far as the handshake proved it: only the leaf's key is proven. */
export interface Peer {
  /** `ip:port`, IPv6 in brackets. */
  readonly address: string;
  /** Leaf first, then the chain it presented. Empty when the peer presented none. */
  readonly certificates: readonly X509Certificate[];
  /** SHA-1 of the leaf's DER, 40 lower-case hex digits; absent without a certificate. */
  readonly fingerprint?: string;
}

const MAX_CHAIN = 10;
/** What IPv4 clients of a socket that listens on IPv6 and IPv4 have in front of their address. */
const MAPPED = "::ffff:";

/** The other end of a socket whose handshake is done. */
export function peerOf(socket: TLSSocket): Peer {
  const certificates = presentedChain(socket);
  const [leaf] = certificates;
  const address = remoteAddress(socket);
  return leaf === undefined ? { address, certificates } : { address, certificates, fingerprint: fingerprint(leaf) };
}

/** `ip:port` of a socket's other end, IPv6 in brackets; `unknown` once it is gone. */
export function remoteAddress(socket: Socket): string {
  return hostAndPort(socket.remoteAddress, socket.remotePort);
}

/** `ip:port` of a socket's own end, like `remoteAddress`. */
export function localAddress(socket: Socket): string {
  return hostAndPort(socket.localAddress, socket.localPort);
}

function hostAndPort(ip: string | undefined, port: number | undefined): string {
  if (ip === undefined || port === undefined) {
    return "unknown";
  }
  const plain = ip.startsWith(MAPPED) ? ip.slice(MAPPED.length) : ip;
  return plain.includes(":") ? `[${plain}]:${port}` : `${plain}:${port}`;
}

/** From the leaf upwards as far as the certificates sent with it reach; trusted or not is for others to decide. */
function presentedChain(socket: TLSSocket): X509Certificate[] {
  const chain: X509Certificate[] = [];
  let next = socket.getPeerCertificate(true);
  while (next?.raw !== undefined && chain.length < MAX_CHAIN) {
    chain.push(new X509Certificate(next.raw));
    const issuer = next.issuerCertificate;
    if (issuer === undefined || issuer.fingerprint256 === next.fingerprint256) {
      break;
    }
    next = issuer;
  }
  return chain;
}
