/**
 * What the SDK can complain about. `code` is for programs and stable; the message says what was tried, where it failed,
 * and what can be done about it.
 */
export class SdkError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** An enrollment did not lead to an identity. */
export class EnrollmentError extends SdkError {}

/** An identity file or object cannot be used. */
export class IdentityFileError extends SdkError {}

/** The controller refused the credentials, or cannot be reached. */
export class AuthenticationError extends SdkError {}

/** The service does not exist, or this identity has no permission for it. `code` is `SERVICE_NOT_AVAILABLE`. */
export class ServiceError extends SdkError {}

/** No router that may be used could be reached. */
export class RouterError extends SdkError {}

/** A connection could not be made; `code` tells whether the router, the controller or the host refused it. */
export class DialError extends SdkError {}

/** A hosted service could not be offered, or not any longer. */
export class ListenError extends SdkError {}

/** End-to-end encryption failed: bytes were changed, or the other end has no key. The connection is closed. */
export class EncryptionError extends SdkError {}

/** The connection was closed by the other end, or with its router. */
export class ConnectionClosedError extends SdkError {
  constructor(message: string, options?: ErrorOptions) {
    super("CONNECTION_CLOSED", message, options);
  }
}

/** The controller refused a request (its own code is `code`), or could not be asked (`CONTROLLER_UNREACHABLE`). */
export class ControllerError extends SdkError {}
