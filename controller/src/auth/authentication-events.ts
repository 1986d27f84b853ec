import { ApiError } from "@sallyport/api";
import type { EventSink } from "../events/event-source.ts";
import type { Proof } from "./primary/proof.ts";

/** Who tried to authenticate, how, and from where. */
export interface Attempt {
  readonly method: string;
  readonly remoteIp: string;
}

/** Tells listeners of a login that succeeded. */
export function tellSuccess(events: EventSink | undefined, { method, remoteIp }: Attempt, proof: Proof): void {
  const { principal, authenticatorId, improperClientCertChain } = proof;
  events?.emit({
    namespace: "authentication",
    event_type: "success",
    type: method,
    // A token is vouched for by a signer; everything else by an authenticator.
    authenticator_id: method === "ext-jwt" ? "" : authenticatorId,
    external_jwt_signer_id: method === "ext-jwt" ? authenticatorId.replace(/^extJwtId:/, "") : "",
    identity_id: principal.identity.id,
    auth_policy_id: principal.policy.id,
    remote_address: remoteIp,
    success: true,
    reason: "",
    improper_client_cert_chain: improperClientCertChain,
  });
}

/** Tells listeners of a login that failed. The reason is the one that the log has; it holds no credential. */
export function tellFailure(events: EventSink | undefined, { method, remoteIp }: Attempt, error: unknown): void {
  events?.emit({
    namespace: "authentication",
    event_type: "fail",
    type: method,
    authenticator_id: "",
    external_jwt_signer_id: "",
    identity_id: "",
    auth_policy_id: "",
    remote_address: remoteIp,
    success: false,
    reason: reasonOf(error),
    improper_client_cert_chain: false,
  });
}

function reasonOf(error: unknown): string {
  if (!(error instanceof ApiError)) return "the controller could not decide";
  return error.detail ?? error.message;
}
