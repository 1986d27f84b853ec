import { ControlHeader, FIRST_PEER_DATA_KEY, type Headers, PeerData as PeerDataKey } from "@sallyport/wire";

/**
 * Peer data: what the two ends of a circuit tell each other while it is set up, as bytes under numeric keys. On the way back it travels as headers of a
 * RouteResult, beside headers that belong to the message itself.
 *
 * Source: docs/protocol/fabric.md, "Peer data".
 */

export type PeerData = ReadonlyMap<number, Uint8Array>;

const { RouteResultAttempt: FIRST_ROUTE_RESULT_KEY, RouteResultErrorCode: LAST_ROUTE_RESULT_KEY } = ControlHeader;

/** Bytes that one side may give; twice as much and the rest of an answer fit into its headers. */
const MAX_BYTES = 16_384;

/** Why peer data is not accepted, or undefined. Keys and a few texts travel here; what is larger would end a router's channel. */
export function peerDataProblem(data: PeerData): string | undefined {
  let bytes = 0;
  for (const value of data.values()) bytes += value.length;
  return bytes <= MAX_BYTES ? undefined : `${bytes} bytes of peer data were given, at most ${MAX_BYTES} are taken`;
}

/** The peer data among the headers of a RouteResult. */
export function peerDataOf(headers: Headers): Map<number, Uint8Array> {
  const data = new Map<number, Uint8Array>();
  for (const [key, value] of headers.entries()) {
    if (key >= FIRST_PEER_DATA_KEY && (key < FIRST_ROUTE_RESULT_KEY || key > LAST_ROUTE_RESULT_KEY))
      data.set(key, value);
  }
  return data;
}

/** Addresses of the sockets at the two ends of a circuit, for people who look at it; `ip:port` or empty. */
export interface EndAddresses {
  readonly initiatorLocal: string;
  readonly initiatorRemote: string;
  readonly terminatorLocal: string;
  readonly terminatorRemote: string;
}

function text(data: PeerData, key: number): string {
  const value = data.get(key);
  return value === undefined ? "" : Buffer.from(value).toString("utf8");
}

/** The addresses the initiating router sent with its request and the terminating one with its answer. */
export function endAddresses(request: PeerData, answer: PeerData): EndAddresses {
  return {
    initiatorLocal: text(request, PeerDataKey.InitiatorLocalAddress),
    initiatorRemote: text(request, PeerDataKey.InitiatorRemoteAddress),
    terminatorLocal: text(answer, PeerDataKey.TerminatorLocalAddress),
    terminatorRemote: text(answer, PeerDataKey.TerminatorRemoteAddress),
  };
}

/** Peer data as the other end gets it: without the addresses of sockets, which are the controller's alone. */
export function withoutAddresses(data: PeerData): Map<number, Uint8Array> {
  const rest = new Map(data);
  rest.delete(PeerDataKey.TerminatorLocalAddress);
  rest.delete(PeerDataKey.TerminatorRemoteAddress);
  rest.delete(PeerDataKey.InitiatorLocalAddress);
  rest.delete(PeerDataKey.InitiatorRemoteAddress);
  return rest;
}

/** Who dials is what the controller has found out, when the router says it at all. */
export function withDialer(data: PeerData, clientId: string): PeerData {
  const named = peerDataText(data, PeerDataKey.DialerIdentityId);
  if (named === undefined || named === clientId) return data;
  const rest = new Map(data).set(PeerDataKey.DialerIdentityId, Buffer.from(clientId, "utf8"));
  rest.delete(PeerDataKey.DialerIdentityName);
  return rest;
}

export function peerDataText(data: PeerData, key: number): string | undefined {
  return data.has(key) ? text(data, key) : undefined;
}
