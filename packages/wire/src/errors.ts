/**
 * The errors of the wire. Each carries a stable `code` for programs and a message for people: what was expected, what came,
 * and, where an operator can act on it, what to do.
 */
export class WireError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** The bytes of a peer break the protocol. Only the connection they came on is closed. */
export class ProtocolError extends WireError {}

/** The channel is closed, or closed while the caller was waiting on it. */
export class ChannelClosedError extends WireError {
  constructor(message: string, code = "CHANNEL_CLOSED", options?: ErrorOptions) {
    super(code, message, options);
  }
}

/** No reply came in time. The channel itself is still usable. */
export class RequestTimeoutError extends WireError {
  constructor(message: string, options?: ErrorOptions) {
    super("REQUEST_TIMEOUT", message, options);
  }
}

/** TLS or the hello exchange did not lead to a channel. */
export class HandshakeError extends WireError {}
