/** What is read of a request besides its body. */
import type { X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { TLSSocket } from "node:tls";
import type { ApiName, Operation } from "@sallyport/api";
import { ProxiedRequestHeader, peerOf, plainAddress } from "@sallyport/wire";
import type { ProxiedBy, RequestInfo } from "./context.ts";

/** What a router's API proxy adds to requests (docs/protocol/edge.md, "API proxy"). */
const { PassedOnAt: PROXIED_AT, ClientCertificate: CLIENT_CERTIFICATE } = ProxiedRequestHeader;

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
  const { address } = peer(message);
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
    peerCertificates: peerCertificatesOf(message),
    proxied: proxiedBy(message),
    sessionToken,
    bearerTokens,
    signal: o.signal,
  };
}

/** None of a client that passes the request on: its certificates are not those of the caller. */
export function peerCertificatesOf(message: IncomingMessage): readonly X509Certificate[] {
  return isProxied(message) ? [] : peer(message).certificates;
}

/** By either header: through some proxies clients can take one away. */
function isProxied({ headersDistinct: headers }: IncomingMessage): boolean {
  return headers[PROXIED_AT] !== undefined || headers[CLIENT_CERTIFICATE] !== undefined;
}

function proxiedBy(message: IncomingMessage): ProxiedBy | undefined {
  if (!isProxied(message)) return undefined;
  return {
    proxyCertificates: peer(message).certificates,
    passedOnAt: message.headersDistinct[PROXIED_AT] ?? [],
    clientCertificates: message.headersDistinct[CLIENT_CERTIFICATE] ?? [],
    clientIp: lastForwarded(message.headersDistinct["x-forwarded-for"]),
  };
}

/** What stands before the last is the client's own word. */
function lastForwarded(headers: readonly string[] | undefined): string | undefined {
  const last = plainAddress(headers?.at(-1)?.split(",").at(-1)?.trim() ?? "");
  return isIP(last) === 0 ? undefined : last;
}

export function remoteAddressOf(message: IncomingMessage): string {
  return peer(message).address;
}
