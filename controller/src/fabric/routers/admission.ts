import type { RouterRecord } from "../ports.ts";

/**
 * Who may open a control channel. Pure decision over what was looked up; a refused router gets no answer, its connection is closed.
 *
 * A router that proves its identity (its certificate is the stored one, and TLS has proved the key) takes the place of its own older channel at once: that
 * is what a restart or a broken network path looks like. Two processes that share one identity would evict each other without end. So after some takeovers
 * within the churn window, the newer one is refused until the window has passed. A connection with any other certificate never evicts a router.
 * Source: docs/protocol/fabric.md, "Admission".
 */

type AdmissionRefusal =
  | "no-certificate"
  | "untrusted-certificate"
  | "unknown-router"
  | "not-enrolled"
  | "fingerprint-mismatch"
  | "disabled"
  | "churn";

const TEXT: Readonly<Record<AdmissionRefusal, string>> = {
  "no-certificate": "the router presented no client certificate; enroll it first",
  "untrusted-certificate": "the router's certificate does not lead to a CA of this network",
  "unknown-router": "no router with this id; check that the router's certificate belongs to this network",
  "not-enrolled": "the router is not enrolled (any more); enroll it with a new token",
  "fingerprint-mismatch": "the certificate is not the one stored for this router; it was renewed or enrolled elsewhere",
  disabled: "the router is disabled",
  churn: "the router replaced its own connection too often; are there two processes with one identity?",
};

/** Ends a connection before the hello is answered. */
export class AdmissionError extends Error {
  readonly code: AdmissionRefusal;

  constructor(code: AdmissionRefusal, routerId: string, detail?: string) {
    super(`router "${routerId}" refused: ${TEXT[code]}${detail === undefined ? "" : ` (${detail})`}`);
    this.name = "AdmissionError";
    this.code = code;
  }
}

export interface AdmissionFacts {
  /** SHA-1 hex of the leaf that the TLS peer presented. */
  readonly fingerprint: string | undefined;
  readonly isTrusted: boolean;
  readonly router: RouterRecord | undefined;
  readonly mayTakeOver: boolean;
}

/** The first reason to refuse, or undefined. */
export function admissionRefusal(facts: AdmissionFacts): AdmissionRefusal | undefined {
  const { fingerprint, isTrusted, router, mayTakeOver } = facts;
  if (fingerprint === undefined) return "no-certificate";
  if (!isTrusted) return "untrusted-certificate";
  if (router === undefined) return "unknown-router";
  if (router.fingerprint === undefined) return "not-enrolled";
  if (router.fingerprint !== fingerprint) return "fingerprint-mismatch";
  if (router.isDisabled) return "disabled";
  return mayTakeOver ? undefined : "churn";
}

/** Counts how often a router replaced its own live channel. Times are milliseconds of any one clock. */
export class TakeoverLimit {
  readonly #takeovers = new Map<string, number[]>();
  readonly #windowMs: number;
  readonly #max: number;

  constructor(windowMs: number, max: number) {
    this.#windowMs = windowMs;
    this.#max = max;
  }

  /** Would a takeover now be within the limit? */
  allows(routerId: string, now: number): boolean {
    return this.#recent(routerId, now).length < this.#max;
  }

  record(routerId: string, now: number): void {
    this.#takeovers.set(routerId, [...this.#recent(routerId, now), now]);
  }

  #recent(routerId: string, now: number): number[] {
    const recent = (this.#takeovers.get(routerId) ?? []).filter((at) => now - at < this.#windowMs);
    if (recent.length === 0) this.#takeovers.delete(routerId);
    return recent;
  }
}
