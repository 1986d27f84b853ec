import { ApiError, ApiTransportError } from "@sallyport/api/client";

export type NotReadyReason =
  | "NetworkNotFound"
  | "NetworkNotReady"
  /** It is being deleted, and what it was reached with is gone already: nothing can be cleaned up in it any more. */
  | "NetworkLost"
  | "NetworkUnauthorized"
  | "RateLimited"
  | "ControllerUnavailable";

/**
 * The network is unavailable. `retryAfterMs` says when to ask again; without it, something has to change first.
 * `isStalled`: it was asked more than once, so a person most likely has to act.
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

type FailureReason =
  | NotReadyReason
  | "NameConflict"
  | "InvalidSpec"
  | "Forbidden"
  | "ReferenceNotFound"
  | "EnrollmentExists"
  | "InUse";

/**
 * `resync`: nothing changes by itself; look again at the usual time. `backoff`: later and later. `reference`: when what
 * the spec refers to changes, and later and later. `immediate`: at once, by another way. `connection`: when the network can be
 * used again, after `afterMs` if that is known.
 */
export type Retry = "resync" | "backoff" | "reference" | "immediate" | "connection";

/** What a failed call means to the resource that it was made for (docs/operator/entities.md, "What a refusal means"). */
export interface Failure {
  readonly reason: FailureReason;
  readonly message: string;
  /** Nothing will come of it before a person changes something. */
  readonly isStalled: boolean;
  readonly retry: Retry;
  readonly afterMs?: number | undefined;
}

/** Undefined for what no network said: a fault of the program, which is not to be shown as one of the network. */
export function failureOf(error: unknown): Failure | undefined {
  if (error instanceof NetworkNotReadyError) {
    const { reason, message, retryAfterMs } = error;
    return { reason, message, isStalled: false, retry: "connection", afterMs: retryAfterMs };
  }
  if (error instanceof OperationForbiddenError) {
    return { reason: "Forbidden", message: error.message, isStalled: true, retry: "resync" };
  }
  if (error instanceof ApiTransportError) {
    return { reason: "ControllerUnavailable", message: error.message, isStalled: false, retry: "backoff" };
  }
  return error instanceof ApiError ? reported(error) : undefined;
}

function reported(error: ApiError): Failure {
  const { status, code } = error;
  const message = textOf(error);
  const stalled = (reason: FailureReason): Failure => ({ reason, message, isStalled: true, retry: "resync" });
  const passing = (reason: FailureReason, retry: Retry): Failure => ({ reason, message, isStalled: false, retry });
  if (isNameTaken(error)) return stalled("NameConflict");
  if (status === 404 || code === "REFERENCED_ENTITY_NOT_FOUND") return passing("ReferenceNotFound", "reference");
  if (status === 401) return passing("NetworkUnauthorized", "backoff");
  if (status === 403) return stalled("Forbidden");
  if (code === "ENROLLMENT_EXISTS") return passing("EnrollmentExists", "immediate");
  if (status === 409) return passing("InUse", "backoff");
  if (status === 429) return { ...passing("RateLimited", "connection"), afterMs: retryAfterMs(error) };
  if (status >= 500) return passing("ControllerUnavailable", "backoff");
  return stalled("InvalidSpec");
}

/** The field and what is wrong with it, where the server names one: the general words before it tell people nothing. */
function textOf({ status, code, message, cause }: ApiError): string {
  if (status !== 400 || !cause?.field || !cause.reason) return `${code}: ${message}`;
  return `the network refuses ${cause.field}: ${cause.reason} (${code})`;
}

/** Servers tell a taken name in their own words; the field and a word of these are common to them. */
function isNameTaken({ status, cause }: ApiError): boolean {
  if (status !== 400 && status !== 409) return false;
  return cause?.field === "name" && /duplicate|unique|already|exists/i.test(cause.reason ?? "");
}

/** A controller, or a proxy before it, may ask for more: it is not left alone for longer. */
const MAX_WAIT_MS = 600_000;

/** How long a 429 or 503 asks to wait, milliseconds; at most ten minutes. */
export function retryAfterMs({ headers }: ApiError): number | undefined {
  const seconds = Number(headers?.["retry-after"]);
  return Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds * 1000, MAX_WAIT_MS) : undefined;
}
