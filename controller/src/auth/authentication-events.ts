import { ApiError } from "@sallyport/api";
import { boundedLog, countedAddress, type Logger, shownText } from "@sallyport/wire";
import type { EventSink } from "../events/event.ts";
import { type Rate, RateLimit } from "./limits/rate-limit.ts";
import type { Proof } from "./primary/proof.ts";

export interface LoginAttempt {
  readonly method: string;
  readonly remoteIp: string;
}

/** Failures that become events, from one address and from all: any client can cause failures at will. */
const FROM_ONE: Rate = { burst: 100, perMinute: 100 };
const FROM_ALL: Rate = { burst: 1_000, perMinute: 1_000 };
/** A reason may name an issuer, a key and an identity that the client claims. */
const MAX_REASON_LENGTH = 400;

/** Emits an event for each login that succeeds, and for as many failures as an operator can use. */
export class AuthenticationEvents {
  readonly #events: EventSink | undefined;
  readonly #log: Logger;
  readonly #fromOne: RateLimit;
  readonly #fromAll: RateLimit;

  /** @param now milliseconds of a clock that does not go back */
  constructor(events: EventSink | undefined, log: Logger, now?: () => number) {
    this.#events = events;
    this.#log = boundedLog(log, { perReason: 1, perMessage: 1 });
    this.#fromOne = new RateLimit(FROM_ONE, { now });
    this.#fromAll = new RateLimit(FROM_ALL, { now });
  }

  succeeded({ method, remoteIp }: LoginAttempt, proof: Proof): void {
    const { principal, authenticatorId, improperClientCertChain } = proof;
    this.#events?.emit({
      namespace: "authentication",
      event_type: "success",
      type: method,
      // A signer vouches for a token; an authenticator for everything else.
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

  /** The reason is the one that the log has; it holds no credential. */
  failed({ method, remoteIp }: LoginAttempt, error: unknown): void {
    if (this.#events === undefined) return;
    const from = countedAddress(remoteIp);
    if (this.#fromOne.take(from) > 0 || this.#fromAll.take("") > 0) {
      this.#log.warn({ from }, "more logins fail than are emitted as events");
      return;
    }
    this.#events.emit({
      namespace: "authentication",
      event_type: "fail",
      type: method,
      authenticator_id: "",
      external_jwt_signer_id: "",
      identity_id: "",
      auth_policy_id: "",
      remote_address: remoteIp,
      success: false,
      reason: shownText(reasonOf(error), MAX_REASON_LENGTH),
      improper_client_cert_chain: false,
    });
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof ApiError)) return "the controller could not decide";
  return error.detail ?? error.message;
}
