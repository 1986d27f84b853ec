export type NotReadyReason =
  | "NetworkNotFound"
  | "NetworkNotReady"
  /** It is being deleted, and what it was reached with is gone already: nothing can be cleaned up in it any more. */
  | "NetworkLost"
  | "NetworkUnauthorized"
  | "RateLimited"
  | "ControllerUnavailable";

/**
 * A network can't be used at the moment, by nobody. `retryAfterMs` says when to ask again; without it, something has to change first.
 * `isStalled`: it was asked more than once, so somebody most likely has to act.
 */
export class NetworkNotReadyError extends Error {
  override readonly name = "NetworkNotReadyError";
  readonly reason: NotReadyReason;
  readonly retryAfterMs: number | undefined;
  readonly isStalled: boolean;

  constructor(
    reason: NotReadyReason,
    message: string,
    o: { retryAfterMs?: number | undefined; isStalled?: boolean; cause?: unknown } = {},
  ) {
    super(message, o.cause === undefined ? undefined : { cause: o.cause });
    this.reason = reason;
    this.retryAfterMs = o.retryAfterMs;
    this.isStalled = o.isStalled ?? false;
  }
}

/** A fresh session may not do this one thing: the identity that the operator logs in as lacks the right. */
export class OperationForbiddenError extends Error {
  override readonly name = "OperationForbiddenError";
  readonly operation: string;

  constructor(operation: string, cause: unknown) {
    super(
      `the controller refuses ${operation} to the operator's identity, whose login it accepts: it has to be an administrator of the network`,
      { cause },
    );
    this.operation = operation;
  }
}
