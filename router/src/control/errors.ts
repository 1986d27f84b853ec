import { EdgeCtrlHeader, EdgeCtrlType, EdgeErrorCode, type Message, RetryHint } from "@sallyport/wire";

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

/** A controller answers neither a request nor a heartbeat, while another one could be asked. */
export class ControllerHangsError extends ControlError {
  override readonly name = "ControllerHangsError";

  constructor(controllerId: string) {
    super("CONTROLLER_HANGS", `controller ${controllerId} answers neither a request nor a heartbeat`);
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
  /** What the client may do about it, when the controller said so. */
  readonly retryHint: RetryHint | undefined;

  constructor(
    edgeCode: number,
    text: string,
    o: { readonly circuitId?: string | undefined; readonly retryHint?: RetryHint | undefined } = {},
  ) {
    super("EDGE_REFUSED", text);
    this.edgeCode = edgeCode;
    this.circuitId = o.circuitId;
    this.retryHint = o.retryHint;
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
    throw new EdgeCtrlError(code, reply.body.toString("utf8"), {
      circuitId: reply.headers.getString(EdgeCtrlHeader.CircuitId),
      retryHint: knownHint(reply.headers.getU32(EdgeCtrlHeader.RetryHint)),
    });
  }
  const text = `the controller answered with content type ${reply.contentType}, expected ${contentType}`;
  throw new ControlError("UNEXPECTED_REPLY", text);
}

/** The hint that a number stands for; absent for numbers of later versions. */
export function knownHint(value: number | undefined): RetryHint | undefined {
  return Object.values(RetryHint).find((hint) => hint === value);
}
