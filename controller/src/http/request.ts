/** What is read of a request besides its body. */
import type { X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import type { ApiName, Operation } from "@sallyport/api";
import { peerOf } from "@sallyport/wire";
import type { RequestInfo } from "./context.ts";

/** Peers by socket: a connection's certificates are read once, not with every request. */
const peers = new WeakMap<object, { address: string; certificates: readonly X509Certificate[] }>();

function peer(message: IncomingMessage): { address: string; certificates: readonly X509Certificate[] } {
  const { socket } = message;
  let known = peers.get(socket);
  if (known === undefined) {
    known = socket instanceof TLSSocket ? peerOf(socket) : { address: "unknown", certificates: [] };
    peers.set(socket, known);
  }
  return known;
}

export function requestInfo(
  message: IncomingMessage,
  o: {
    readonly id: string;
    readonly api: ApiName;
    readonly operation: Pick<Operation, "issuesSession">;
    readonly path: string;
    readonly signal: AbortSignal;
  },
): RequestInfo {
  const { address, certificates } = peer(message);
  const all = message.headersDistinct;
  const headers = Object.fromEntries(Object.entries(all).map(([name, values]) => [name, values?.[0]]));
  const sessionToken = o.operation.issuesSession
    ? undefined
    : headers["zt-session"] || headers["svc-session"] || undefined;
  const bearerTokens = (all.authorization ?? []).flatMap((value) => {
    const token = /^Bearer +(\S+) *$/i.exec(value)?.[1];
    return token === undefined ? [] : [token];
  });
  return {
    id: o.id,
    api: o.api,
    method: message.method ?? "",
    path: o.path,
    headers,
    remoteAddress: address,
    remoteIp: plainAddress(message.socket.remoteAddress ?? ""),
    peerCertificates: certificates,
    sessionToken,
    bearerTokens,
    signal: o.signal,
  };
}

export function peerCertificatesOf(message: IncomingMessage): readonly X509Certificate[] {
  return peer(message).certificates;
}

/** IPv4 clients of a socket that listens on IPv6 and IPv4 are shown by their IPv4 address. */
function plainAddress(ip: string): string {
  return ip.replace(/^::ffff:(?=\d+\.)/i, "");
}

export function remoteAddressOf(message: IncomingMessage): string {
  return peer(message).address;
}
