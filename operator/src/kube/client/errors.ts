/** One detail of a refusal: which field, what is wrong with it. */
export interface KubeErrorCause {
  /** Machine word: `FieldValueInvalid`, `FieldManagerConflict`, `NamespaceTerminating`. */
  readonly reason?: string;
  readonly message?: string;
  /** Path in the object: `spec.replicas`. */
  readonly field?: string;
}

interface KubeErrorInit {
  readonly status: number;
  readonly reason: string;
  readonly message: string;
  readonly causes?: readonly KubeErrorCause[];
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/**
 * What an API server refused, or that it could not be asked.
 * `status` is the HTTP status, 0 when no answer came; `reason` the machine word of the Status object (`NotFound`, `Conflict`, `Expired`, `Invalid`),
 * without an answer `Unreachable`, `Timeout` or `BadAnswer`.
 */
export class KubeError extends Error {
  readonly status: number;
  readonly reason: string;
  readonly causes: readonly KubeErrorCause[];
  /** How long the server asks to wait, milliseconds; at most five minutes. */
  readonly retryAfterMs: number | undefined;

  constructor(init: KubeErrorInit) {
    super(init.message, init.cause === undefined ? undefined : { cause: init.cause });
    this.name = "KubeError";
    this.status = init.status;
    this.reason = init.reason;
    this.causes = init.causes ?? [];
    this.retryAfterMs = init.retryAfterMs;
  }

  get isNotFound(): boolean {
    return this.status === 404;
  }

  /** Another client wrote first: read again and retry. */
  get isConflict(): boolean {
    return this.status === 409 && this.reason !== "AlreadyExists";
  }

  get isAlreadyExists(): boolean {
    return this.status === 409 && this.reason === "AlreadyExists";
  }

  /** The version that a list or watch named is too old: list again. */
  get isGone(): boolean {
    return this.status === 410;
  }

  /** A right is missing; {@link isNamespaceTerminating} is the exception. */
  get isForbidden(): boolean {
    return this.status === 403;
  }

  /** Nothing can be created there any more. */
  get isNamespaceTerminating(): boolean {
    return this.causes.some(isTermination);
  }

  /** The object itself is wrong: sending it again cannot help. */
  get isInvalid(): boolean {
    return this.status === 400 || this.status === 422 || this.status === 413 || this.status === 415;
  }

  /** No usable answer came. */
  get isUnreachable(): boolean {
    return this.status === 0;
  }
}

/** Servers, and proxies before them, may ask for more: the client waits no longer than this. */
const MAX_WAIT_MS = 300_000;

/** The error of an answer whose body may be a Status object. `asked` names the request: `GET /api/v1/…`. */
export function errorOfAnswer(asked: string, status: number, body: unknown, retryAfterMs?: number): KubeError {
  const given = isStatus(body) ? body : {};
  const reason = given.reason || REASONS[status] || `Http${status}`;
  const text = given.message || (typeof body === "string" && body !== "" ? body.slice(0, 500) : "no message");
  const seconds = given.details?.retryAfterSeconds;
  const wait = retryAfterMs ?? (seconds === undefined || seconds <= 0 ? undefined : seconds * 1000);
  const causes = given.details?.causes ?? [];
  const advice = causes.some(isTermination) ? undefined : ADVICE[status];
  return new KubeError({
    status,
    reason,
    message: `${asked}: ${status} ${reason}: ${text}${advice === undefined ? "" : ` (${advice})`}`,
    causes,
    retryAfterMs: wait && Math.min(wait, MAX_WAIT_MS),
  });
}

const isTermination = ({ reason }: KubeErrorCause): boolean => reason === "NamespaceTerminating";

interface StatusObject {
  readonly message?: string;
  readonly reason?: string;
  readonly code?: number;
  readonly details?: { readonly causes?: readonly KubeErrorCause[]; readonly retryAfterSeconds?: number };
}

function isStatus(body: unknown): body is StatusObject {
  return typeof body === "object" && body !== null && "kind" in body && body.kind === "Status";
}

/** The error of the object of an ERROR event. */
export function errorOfWatch(asked: string, object: unknown): KubeError {
  const code = isStatus(object) ? object.code : undefined;
  return errorOfAnswer(`${asked} (in the stream)`, code ?? 500, object);
}

const REASONS: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  409: "Conflict",
  410: "Expired",
  413: "RequestEntityTooLarge",
  415: "UnsupportedMediaType",
  422: "Invalid",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

const ADVICE: Readonly<Record<number, string>> = {
  401: "check the token or the client certificate of the operator",
  403: "give the operator's service account this right",
};

/**
 * What is wrong with the object, and not with who writes it: quotas, volumes that can't grow and webhooks answer as forbidden, too, and no right would help.
 * Of a right that lacks servers say which user has it not.
 */
export function isRefusedObject({ isInvalid, isForbidden, isNamespaceTerminating, message }: KubeError): boolean {
  if (isInvalid) return true;
  if (!isForbidden || isNamespaceTerminating) return false;
  return /is forbidden: (?!User )|admission webhook .+ denied the request/.test(message);
}
