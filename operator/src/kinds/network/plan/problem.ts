/** Why a network can't be used; `reason` is what conditions and events show (docs/operator/networks.md, "Why a Network is not ready"). */
export interface NetworkProblem {
  readonly reason: NetworkProblemReason;
  /** What was expected, what was found, what to do. No secrets. */
  readonly message: string;
  /** Nothing will come of it before a person changes something. */
  readonly isStalled: boolean;
}

export type NetworkProblemReason =
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
