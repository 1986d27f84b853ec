import type { KubeErrorCause } from "../client/errors.ts";

/** What the fake server refuses, as a real one words it. */
export class Refusal extends Error {
  readonly code: number;
  readonly reason: string;
  readonly causes: readonly KubeErrorCause[];
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: number,
    reason: string,
    message: string,
    o: { causes?: readonly KubeErrorCause[]; retryAfterSeconds?: number } = {},
  ) {
    super(message);
    this.name = "Refusal";
    this.code = code;
    this.reason = reason;
    this.causes = o.causes ?? [];
    this.retryAfterSeconds = o.retryAfterSeconds;
  }

  /** The Status object of the answer. */
  get status(): object {
    const { code, reason, message, causes, retryAfterSeconds } = this;
    return {
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      message,
      reason,
      details: { ...(causes.length > 0 ? { causes } : {}), ...(retryAfterSeconds ? { retryAfterSeconds } : {}) },
      code,
    };
  }
}

export function notFound(plural: string, name: string): Refusal {
  return new Refusal(404, "NotFound", `${plural} "${name}" not found`);
}

export function expired(what: string): Refusal {
  return new Refusal(410, "Expired", what);
}

export function conflict(plural: string, name: string): Refusal {
  return new Refusal(
    409,
    "Conflict",
    `Operation cannot be fulfilled on ${plural} "${name}": the object has been modified; please apply your changes to the latest version and try again`,
  );
}
