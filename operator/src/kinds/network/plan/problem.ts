/** Why a network can't be used; `reason` is what conditions and events show (docs/operator/networks.md, "Why a Network is not ready"). */
export interface NetworkProblem {
  readonly reason: NetworkProblemReason;
  /** What was expected, what was found, what to do. No secrets. */
  readonly message: string;
  /** Nothing will come of it before a person changes something. */
  readonly isStalled: boolean;
}

type NetworkProblemReason =
  | "SecretNotFound"
  | "SecretKeyMissing"
  | "ConfigMapNotFound"
  | "ConfigMapKeyMissing"
  | "InvalidCaBundle"
  | "InvalidCredentials"
  | "TokenUnavailable"
  | "AudienceNotAllowed"
  | "ControllerUnavailable"
  | "UntrustedCertificate"
  | "WrongCertificateName"
  | "CertificateExpired"
  | "NotAController"
  | "NetworkUnauthorized"
  | "RateLimited"
  | "NotAdministrator"
  | "UnsupportedVersion"
  // Of Networks that the operator runs.
  | "NameConflict"
  | "InvalidConfig"
  | "InvalidDatabaseUrl"
  | "SecretKeyLost"
  | "WaitingForLoadBalancer"
  | "WaitingForNodePort"
  | "CertManagerMissing"
  | "CertificateNotReady"
  | "ControllerStarting"
  | "ControllerFailing";

export const stalled = (reason: NetworkProblemReason, message: string): NetworkProblem => ({
  reason,
  message,
  isStalled: true,
});

export const passing = (reason: NetworkProblemReason, message: string): NetworkProblem => ({
  reason,
  message,
  isStalled: false,
});

/** A network that can be used is looked at this often, milliseconds: its API tells nothing by itself. */
const WHEN_READY_MS = 30_000;
const SOONEST_MS = 1_000;
const LATEST_MS = 60_000;
/** What a person has to put right, without that the cluster would tell. */
const WHEN_STALLED_MS = 60_000;

/** A problem of the network's own objects: the watches tell when those change. */
const OF_OBJECTS = new Set<NetworkProblem["reason"]>([
  "SecretNotFound",
  "SecretKeyMissing",
  "ConfigMapNotFound",
  "ConfigMapKeyMissing",
  "InvalidCaBundle",
  "InvalidCredentials",
  "AudienceNotAllowed",
  "InvalidConfig",
  "InvalidDatabaseUrl",
  "SecretKeyLost",
  "WaitingForLoadBalancer",
  "WaitingForNodePort",
  "CertificateNotReady",
  "ControllerFailing",
]);

/**
 * When a Network is looked at again, milliseconds; undefined: when something changes. A network that is away is asked ever more rarely, a quarter of
 * the time that it has been away for; nothing has to be remembered for that.
 */
export function nextReconcileMs(
  problem: (NetworkProblem & { readonly retryAfterMs?: number }) | undefined,
  awayForMs: number,
): number | undefined {
  if (problem === undefined) return WHEN_READY_MS;
  if (problem.retryAfterMs === undefined && OF_OBJECTS.has(problem.reason)) return undefined;
  if (problem.retryAfterMs !== undefined) return Math.max(problem.retryAfterMs + 100, SOONEST_MS);
  // Refused for good: only other credentials help.
  if (problem.reason === "NetworkUnauthorized" && problem.isStalled) return undefined;
  if (problem.isStalled) return WHEN_STALLED_MS;
  return Math.min(Math.max(awayForMs / 4, SOONEST_MS), LATEST_MS);
}
