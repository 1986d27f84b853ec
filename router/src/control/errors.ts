import { EdgeCtrlHeader, EdgeCtrlType, EdgeErrorCode, type Message } from "@sallyport/wire";

/** What went wrong between this router and its controllers. */
export class ControlError extends Error {
  override readonly name: string = "ControlError";
  /** A stable word for logs and tests, e.g. `NO_CONTROLLER`. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** No controller is connected at the moment: the caller may try again, and tells its client so. */
export class NoControllerError extends ControlError {
  override readonly name = "NoControllerError";

  /** `waitedMs`: how long one was waited for. */
  constructor(what: string, waitedMs?: number) {
    const since =
      waitedMs === undefined ? "; it is retried until one answers" : `, and none came within ${waitedMs} ms`;
    super("NO_CONTROLLER", `${what}: no controller is connected${since}`);
  }
}

/**
 * The controller refused an edge request. `edgeCode` is the number the wire carried (docs/protocol/fabric.md,
 * "Errors"), the message is the controller's text and is what an SDK is told.
 */
export class EdgeCtrlError extends ControlError {
  override readonly name = "EdgeCtrlError";
  readonly edgeCode: number;
  /** The circuit the refusal belongs to, when the controller named one. */
  readonly circuitId: string | undefined;

  constructor(edgeCode: number, text: string, circuitId?: string) {
    super("EDGE_REFUSED", text);
    this.edgeCode = edgeCode;
    this.circuitId = circuitId;
  }

  /** The controller's text, unchanged. */
  get text(): string {
    return this.message;
  }
}

/** The reply when it is of the expected type; an edge error as EdgeCtrlError, anything else as ControlError. */
export function expectReply(reply: Message, contentType: number): Message {
  if (reply.contentType === contentType) return reply;
  if (reply.contentType === EdgeCtrlType.Error) {
    const code = reply.headers.getU32(EdgeCtrlHeader.ErrorCode) ?? EdgeErrorCode.Internal;
    throw new EdgeCtrlError(code, reply.body.toString("utf8"), reply.headers.getString(EdgeCtrlHeader.CircuitId));
  }
  const text = `the controller answered with content type ${reply.contentType}, expected ${contentType}`;
  throw new ControlError("UNEXPECTED_REPLY", text);
}
