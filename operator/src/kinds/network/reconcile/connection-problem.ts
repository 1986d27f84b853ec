import { ApiError, ApiTransportError } from "@sallyport/api/client";
import { NetworkNotReadyError, OperationForbiddenError } from "../../../controller-client/errors.ts";
import { type NetworkProblem, passing, stalled } from "../plan/problem.ts";

/** A failed look at a network, and when to look again, where that is known. */
export interface ConnectionProblem extends NetworkProblem {
  readonly retryAfterMs?: number;
}

const UNTRUSTED = new Set([
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "CERT_UNTRUSTED",
  "CERT_SIGNATURE_FAILURE",
  "INVALID_CA",
]);
const EXPIRED = new Set(["CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID"]);

/**
 * What a failed call says of the network as a whole. Undefined for what is no network's fault.
 * `trust`: where the certificates come from, for messages.
 */
export function connectionProblem(error: unknown, trust: string): ConnectionProblem | undefined {
  if (error instanceof NetworkNotReadyError) return notReady(error);
  if (error instanceof OperationForbiddenError) return stalled("NotAdministrator", error.message);
  if (error instanceof ApiTransportError) return transport(error, trust);
  if (!(error instanceof ApiError)) return undefined;
  const message = `${error.code}: ${error.message}`;
  if (error.status === 401) return passing("NetworkUnauthorized", message);
  if (error.status === 403) return stalled("NotAdministrator", message);
  if (error.status === 429) return passing("RateLimited", message);
  if (error.status >= 500) return passing("ControllerUnavailable", message);
  return stalled("NotAController", `the server refuses a request that every controller takes: ${message}`);
}

function notReady({ reason, message, retryAfterMs, isStalled }: NetworkNotReadyError): ConnectionProblem {
  const after = retryAfterMs === undefined ? {} : { retryAfterMs };
  if (reason === "NetworkUnauthorized") return { ...passing(reason, message), isStalled, ...after };
  if (reason === "RateLimited") return { ...passing(reason, message), ...after };
  return { ...passing("ControllerUnavailable", message), ...after };
}

function transport({ message, cause }: ApiTransportError, trust: string): ConnectionProblem {
  const code = codeOf(cause);
  if (UNTRUSTED.has(code)) {
    return stalled(
      "UntrustedCertificate",
      `${message} (${code}): the controller's certificate is from none of the authorities in ${trust}; put that of the controller there, as served at /edge/client/v1/.well-known/est/cacerts`,
    );
  }
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    return stalled(
      "WrongCertificateName",
      `${message}: use an address that is in the certificate, or have the controller advertise this one`,
    );
  }
  if (EXPIRED.has(code)) {
    return stalled(
      "CertificateExpired",
      `${message} (${code}): look at the clocks, and at the renewal of the controller's certificate`,
    );
  }
  if (code === "NOT_A_CONTROLLER") {
    return stalled("NotAController", `${message}: look at who answers at this address, and withdraw that certificate`);
  }
  // Something answered over TLS that we trust, and it was not what a controller says.
  if (cause === undefined) {
    return stalled("NotAController", `${message}: the address should be the base of a controller's Management API`);
  }
  const advice = ADVICE[code];
  return passing("ControllerUnavailable", advice === undefined ? message : `${message}: ${advice}`);
}

/** By the code of the operating system's error. Nothing of this is known to be wrong for good. */
const UNKNOWN_NAME =
  "the operator's pod does not know this name: look at the endpoint, and at the cluster's name server";
const ADVICE: Readonly<Record<string, string>> = {
  EAI_AGAIN: UNKNOWN_NAME,
  ENOTFOUND: UNKNOWN_NAME,
  ECONNREFUSED: "nothing listens there: look at the port, and whether the controller runs",
  ECONNRESET: "something in between, such as a proxy or a firewall, ends the connection",
  EHOSTUNREACH: "no route leads there from the operator's pod",
  ENETUNREACH: "no route leads there from the operator's pod",
  ETIMEDOUT: "no answer: a firewall or a NetworkPolicy may drop what the operator's pod sends",
};

function codeOf(cause: unknown): string {
  return cause instanceof Error && "code" in cause ? String(cause.code) : "";
}
