/**
 * The errors of the Client and Management APIs: every code with its status and message, and the exception that carries one.
 * Clients switch on `code`; codes, statuses and messages are those of `docs/api.md`, "Errors".
 */

/** Status and fixed message of every error code that the API sends. */
export const API_ERRORS = {
  NOT_FOUND: { status: 404, message: "The resource requested was not found or is no longer available" },
  UNHANDLED: { status: 500, message: "An unhandled error occurred" },
  INVALID_FIELD: { status: 400, message: "The field contains an invalid value" },
  COULD_NOT_VALIDATE: {
    status: 400,
    message: "The supplied request contains an invalid document or no valid accept content were available, see cause",
  },
  COULD_NOT_PARSE_BODY: { status: 400, message: "The body of the request could not be parsed" },
  COULD_NOT_READ_BODY: { status: 500, message: "The body of the request could not be read" },
  REQUEST_ENTITY_TOO_LARGE: { status: 413, message: "The request body exceeds the maximum accepted size" },
  METHOD_NOT_ALLOWED: { status: 405, message: "The resource requested does not support this HTTP verb" },
  UNSUPPORTED_MEDIA: {
    status: 415,
    message: "No suitable accept media types were detected, supports: application/json",
  },
  PRECONDITION_FAILED: { status: 412, message: "The entity was changed since the client read it, see cause" },
  INVALID_CONTENT_TYPE: { status: 400, message: "The content type supplied is not acceptable" },
  INVALID_FILTER: { status: 400, message: "The filter query supplied is invalid" },
  INVALID_PAGINATION: { status: 400, message: "The pagination properties provided are invalid" },
  INVALID_SORT_IDENTIFIER: { status: 400, message: "The sort order supplied is invalid" },
  INVALID_UUID: { status: 400, message: "The supplied UUID is invalid" },
  UNAUTHORIZED: {
    status: 401,
    message: "The request could not be completed. The session is not authorized or the credentials are invalid",
  },
  INVALID_AUTH: { status: 401, message: "The authentication request failed" },
  INVALID_AUTH_METHOD: { status: 400, message: "The supplied authentication method is not valid" },
  RATE_LIMITED: {
    status: 429,
    message: "The requested operation is rate limited and the rate limit has been exceeded. Please try again later",
  },
  SERVER_TOO_MANY_REQUESTS: {
    status: 429,
    message: "Too many requests to alter state have been issued. Please slow your request rate or try again later.",
  },
  NOT_IMPLEMENTED: {
    status: 501,
    message: "The operation is part of the published description and is not served by this controller",
  },
  TIMEOUT: { status: 503, message: "The requested operation took too much time to reply" },
  SERVER_NOT_RUNNING_IN_HA_MODE: {
    status: 400,
    message: "The server is not running in HA mode. HA operations are not permitted",
  },
  ENTITY_CAN_NOT_BE_DELETED: { status: 400, message: "The entity requested for delete can not be deleted" },
  ENTITY_CAN_NOT_BE_UPDATED: { status: 400, message: "The entity requested for update can not be updated" },
  CAN_NOT_DELETE_REFERENCED_ENTITY: {
    status: 409,
    message: "the entity cannot be deleted because it is referenced by another entity, see cause",
  },
  REFERENCED_ENTITY_NOT_FOUND: { status: 400, message: "REFERENCED_ENTITY_NOT_FOUND" },
  ENROLLMENT_EXISTS: { status: 409, message: "ENROLLMENT_EXISTS" },
  ENROLLMENT_EXPIRED: { status: 400, message: "The window for this enrollment has expired" },
  INVALID_ENROLLMENT_TOKEN: { status: 400, message: "The supplied token is not valid" },
  INVALID_ENROLL_METHOD: { status: 400, message: "The supplied enrollment method is not valid" },
  INVALID_ENROLLMENT_NOT_ALLOWED: { status: 409, message: "The configuration does not allow this enrollment" },
  ENROLLMENT_IDENTITY_ALREADY_ENROLLED: {
    status: 409,
    message: "The token supplied for this enrollment already has a matching identity, cannot enroll a new identity",
  },
  INVALID_BACKING_TOKEN_TYPE: { status: 400, message: "The backing token type is invalid" },
  ENROLLMENT_CA_NOT_VALID: { status: 400, message: "The CA tied to the supplied token is no longer valid" },
  ENROLLMENT_NO_VALID_CAS: { status: 400, message: "No CAs are valid for this request" },
  COULD_NOT_PROCESS_CSR: { status: 400, message: "The supplied csr could not be processed" },
  MISSING_OR_INVALID_CSR: {
    status: 400,
    message: "The supplied enrollment request is missing or contains an invalid CSR",
  },
  EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID: {
    status: 400,
    message: "The edge router CSR enrollment must have a common name that matches the edge router's id",
  },
  FAILED_ER_REENROLLMENT: { status: 500, message: "the edge router failed to be re-enrolled, see cause" },
  CERT_FAILED_VALIDATION: { status: 400, message: "certificate failed to validate against CA" },
  CERT_IN_USE: { status: 409, message: "The certificate supplied is already associated with another identity" },
  MISSING_CERT_CLAIM: {
    status: 400,
    message: "The certificate is expected to contain and externalId, which was not found",
  },
  INVALID_CLIENT_CERT: { status: 400, message: "The provided client certificate is invalid" },
  INVALID_CERT_PEM: {
    status: 400,
    message: "the supplied certificate PEM is either invalid or contains the incorrect number of certificates",
  },
  COULD_NOT_PARSE_x509_FROM_DER: { status: 400, message: "could not parse x509 from DER" },
  COULD_NOT_PARSE_DER_BLOCK: { status: 400, message: "The certificate's DER block could not be parsed" },
  COULD_NOT_PARSE_PEM_BLOCK: { status: 400, message: "The certificate's PEM block could not be parsed" },
  EXPECTED_PEM_CERTIFICATE: { status: 400, message: "expected PEM block type 'CERTIFICATE'" },
  CERTIFICATE_IS_NOT_CA: { status: 400, message: "Leading certificate is not a CA" },
  CA_ALREADY_VERIFIED: { status: 409, message: "CA has already been verified" },
  INVALID_COMMON_NAME: { status: 400, message: "The common name of the supplied certificate is invalid" },
  CERTIFICATE_FAILED_VALIDATION: {
    status: 400,
    message: "The supplied certificate failed to validate against the CA's certificate chain",
  },
  INVALID_AUTHENTICATOR_PROPERTIES: {
    status: 400,
    message: "The properties supplied did not match the authenticator method",
  },
  CAN_NOT_UPDATE_AUTHENTICATOR: { status: 409, message: "The authenticator cannot be updated in this fashion" },
  MAX_AUTHENTICATOR_METHODS_REACHED: {
    status: 409,
    message: "The identity already has the maximum authenticators of the specified method",
  },
  CAN_NOT_UPDATE_ROUTER: {
    status: 409,
    message: "The router was not added via the Edge API and cannot be updated",
  },
  NO_EDGE_ROUTERS_AVAILABLE: {
    status: 400,
    message: "No edge routers are assigned and online to handle the requested connection",
  },
  INVALID_POSTURE: { status: 409, message: "Posture response data is missing or wrong" },
  MFA_EXISTS: { status: 409, message: "An MFA record already exists, try removing it" },
  MFA_NOT_ENROLLED: { status: 409, message: "The current identity is not enrolled in MFA" },
  MFA_ENROLLMENT_NOT_STARTED: { status: 404, message: "MFA enrollment has not be started" },
  MFA_INVALID_TOKEN: { status: 400, message: "An invalid token/code was provided" },
} as const satisfies Record<string, { status: number; message: string }>;

export type ApiErrorCode = keyof typeof API_ERRORS;

/** What is sent as `error.cause`: a field problem (`field`, `reason`, `value`), a nested error, or a message with data. */
export interface ApiErrorCause {
  readonly code?: string;
  readonly message?: string;
  readonly requestId?: string;
  readonly field?: string;
  readonly reason?: string;
  readonly value?: string;
  readonly data?: Readonly<Record<string, unknown>>;
  readonly cause?: ApiErrorCause;
}

/**
 * A failure as the API shows it. The server throws it, the typed client throws the one that it received.
 * `detail` is for the log only and never sent: put there what the caller must not learn.
 */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly code: string;
  override readonly cause: ApiErrorCause | undefined;
  /** Set on errors received by the client: the id under which the server logged the request. */
  readonly requestId: string | undefined;
  /** Further response headers: `retry-after` (seconds) with 429 and 503. The client gives that one, too. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly detail: string | undefined;

  constructor(
    status: number,
    code: string,
    message: string,
    cause?: ApiErrorCause,
    extra?: {
      requestId?: string | undefined;
      headers?: Record<string, string> | undefined;
      detail?: string | undefined;
    },
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.cause = cause;
    this.requestId = extra?.requestId;
    this.headers = extra?.headers;
    this.detail = extra?.detail;
  }
}

/** An error of the table with its fixed status and message. */
export function apiError(
  code: ApiErrorCode,
  cause?: ApiErrorCause,
  extra?: { headers?: Record<string, string> | undefined; detail?: string | undefined },
): ApiError {
  const { status, message } = API_ERRORS[code];
  return new ApiError(status, code, message, cause, extra);
}

/** 400 `COULD_NOT_VALIDATE` naming the field, what is wrong with it, and the value that came. */
export function fieldError(field: string, reason: string, value?: unknown): ApiError {
  return apiError("COULD_NOT_VALIDATE", fieldCause(field, reason, value));
}

/** The cause object of a field problem; the value is sent as text, cut to 64 characters. */
export function fieldCause(field: string, reason: string, value?: unknown): ApiErrorCause {
  return { field, reason, value: printable(value) };
}

/** 404 for an entity, in the path or referenced by a body: `service with id x not found`. */
export function notFound(entityType: string, id: string, by = "id"): ApiError {
  return apiError("NOT_FOUND", unhandledCause(`${entityType} with ${by} ${id} not found`));
}

/** 401 for a missing, expired or insufficient session; 403 is never sent. `detail` goes to the log only. */
export function unauthorized(detail?: string): ApiError {
  return apiError("UNAUTHORIZED", undefined, { detail });
}

/** A cause that is plain text. */
export function unhandledCause(message: string): ApiErrorCause {
  return { code: "UNHANDLED", message };
}

function printable(value: unknown): string {
  if (value === undefined || value === null) return "";
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
  return text.length > 64 ? `${text.slice(0, 64)}...` : text;
}
