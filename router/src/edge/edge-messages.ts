import {
  BaseHeader,
  EdgeErrorCode,
  EdgeHeader,
  EdgeType,
  Headers,
  type Message,
  type Outgoing,
  RetryHint,
} from "@sallyport/wire";

/** What an SDK is told when its session is unknown, expired or removed: clients compare this text literally. */
export const INVALID_SESSION = "Invalid Session";
export const NO_CONN_ID = "connId not set, required";
export const NO_CONTROLLER_FOR_CIRCUIT = "no controller available, cannot create circuit";
export const NO_CONTROLLER_FOR_TERMINATOR = "no controller available, cannot create terminator";
/** The end of a circuit whose flow control the SDK does, and the answer to an acknowledgement that cannot be read. */
export const UNROUTED = "xgress unrouted";
export const XGRESS_CLOSED = "xgress closed";

export function connIdInUse(connId: number): string {
  return `connection id ${connId} is already in use on this channel`;
}

export function tooManyWaiting(most: number): string {
  return `${most} requests of this client are waiting; try again later`;
}

/** Bytes of a session token at most. Longer ones, JWTs included, are none, and would not fit into what controllers are asked. */
export const MAX_SESSION_TOKEN = 16_384;

/** Why something is refused or ended: the text for people, the code and the hint for programs. */
export interface Denial {
  readonly text: string;
  /** See `EdgeErrorCode`. */
  readonly code: number;
  readonly retryHint: RetryHint;
  /** Of posture checks, sorted; empty for other reasons. */
  readonly failingCheckIds: readonly string[];
}

/** A request is refused with a denial that programs read. */
export class DeniedError extends Error {
  override readonly name = "DeniedError";
  readonly denial: Denial;

  constructor(reason: Denial) {
    super(reason.text);
    this.denial = reason;
  }
}

export function denial(
  code: number,
  text: string,
  o: { readonly retryHint?: RetryHint | undefined; readonly failingCheckIds?: readonly string[] } = {},
): Denial {
  return { code, text, retryHint: o.retryHint ?? retryHintOf(code), failingCheckIds: o.failingCheckIds ?? [] };
}

/** What exists by a dial or bind session that was removed ends so: the client makes another session at once. */
export function sessionEnded(): Denial {
  return denial(EdgeErrorCode.InvalidSession, "session ended");
}

/** What a client may do about a refusal; what passes by itself is never {@link RetryHint.NotRetriable}. */
function retryHintOf(code: number): RetryHint {
  switch (code) {
    case EdgeErrorCode.InvalidApiSession:
    case EdgeErrorCode.InvalidSession:
    case EdgeErrorCode.WrongSessionType:
    case EdgeErrorCode.InvalidEdgeRouterForSession:
      return RetryHint.StartOver;
    case EdgeErrorCode.Internal:
    case EdgeErrorCode.PostureCheckFailed:
      return RetryHint.Default;
    default:
      return RetryHint.NotRetriable;
  }
}

/** Code and structured error of a denial. The error has no `cause`: clients could not read the whole of it then. */
export function withDenial(headers: Headers, { text, code, retryHint, failingCheckIds }: Denial): Headers {
  const failing = failingCheckIds.length === 0 ? {} : { failingPostureCheckIds: failingCheckIds };
  return headers
    .setU32(EdgeHeader.ErrorCode, code)
    .setString(EdgeHeader.StructuredError, JSON.stringify({ message: text, code, retryHint, ...failing }));
}

/** The end of a connection or listener, or the refusal of one; the text is never empty because clients read meaning into that. */
export function stateClosed(connId: number, reason: string | Denial): Outgoing {
  const headers = new Headers().setU32(EdgeHeader.ConnId, connId);
  const text = typeof reason === "string" ? reason : reason.text;
  if (typeof reason !== "string") withDenial(headers, reason);
  return { contentType: EdgeType.StateClosed, headers, body: Buffer.from(text || "closed", "utf8") };
}

/** The same as an answer to the message with sequence `replyFor`. */
export function stateClosedFor(request: Message, connId: number, reason: string | Denial): Outgoing {
  const out = stateClosed(connId, reason);
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
