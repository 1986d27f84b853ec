import { BaseHeader, EdgeHeader, EdgeType, Headers, type Message, type Outgoing } from "@sallyport/wire";

/** What an SDK is told when its session is unknown, expired or removed: clients compare this text literally. */
export const INVALID_SESSION = "Invalid Session";
export const NO_CONTROLLER_FOR_CIRCUIT = "no controller available, cannot create circuit";
export const NO_CONTROLLER_FOR_TERMINATOR = "no controller available, cannot create terminator";
/** The end of a circuit whose flow control the SDK does, and the answer to an acknowledgement that cannot be read. */
export const UNROUTED = "xgress unrouted";
export const XGRESS_CLOSED = "xgress closed";
export const SESSION_ENDED = "session ended";

/** Bytes of a session token at most. Longer ones, JWTs included, are none, and would not fit into what controllers are asked. */
export const MAX_SESSION_TOKEN = 16_384;

/** The end of a connection or listener, or the refusal of one; the text is never empty because clients read meaning into that. */
export function stateClosed(connId: number, text: string): Outgoing {
  return {
    contentType: EdgeType.StateClosed,
    headers: new Headers().setU32(EdgeHeader.ConnId, connId),
    body: Buffer.from(text || "closed", "utf8"),
  };
}

/** The same as an answer to the message with sequence `replyFor`. */
export function stateClosedFor(request: Message, connId: number, text: string): Outgoing {
  const out = stateClosed(connId, text);
  out.headers?.setI32(BaseHeader.ReplyFor, request.sequence);
  return out;
}

/** The connection id of an edge message; 0 is a valid one. */
export function connIdOf(message: Message): number | undefined {
  return message.headers.getU32(EdgeHeader.ConnId);
}

/** A tunneler's app data is a few hundred bytes; applications may send what they like. */
const MAX_BYTES = 4_096;

/**
 * Whether the dialling end says that it sends datagrams: a tunneler tells the hosting one the protocol of its client in the
 * app data (docs/protocol/tunneler.md, "App data"), and asks for names in datagrams, too. An application's app data is its own.
 */
export function saysDatagrams(appData: Buffer | undefined): boolean {
  if (appData === undefined || appData.length > MAX_BYTES || appData[0] !== 0x7b) return false;
  try {
    const { dst_protocol: protocol, connType } = JSON.parse(appData.toString("utf8"));
    return protocol === "udp" || connType === "resolver";
  } catch {
    return false;
  }
}
