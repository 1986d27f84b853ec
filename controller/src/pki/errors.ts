/** Why a certificate request is refused; the codes are those that the API shows. */
export type CsrErrorCode =
  | "MISSING_OR_INVALID_CSR"
  | "COULD_NOT_PROCESS_CSR"
  | "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID";

/** A certificate request that cannot be answered with a certificate. The message says which request, what was expected and what came. */
export class CsrError extends Error {
  override name = "CsrError";
  readonly code: CsrErrorCode;

  constructor(code: CsrErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The network's own keys or certificates are unusable. */
export class PkiError extends Error {
  override name = "PkiError";
}
