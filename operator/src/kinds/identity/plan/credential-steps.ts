import type { FoundIdentity } from "@sallyport/resources";
import {
  ASK,
  type CredentialState,
  type CredentialStep,
  endOf,
  type FormerCertificate,
  type HeldCertificate,
  type HeldSecret,
  lost,
  type OwnSecret,
  renewalTime,
  revoked,
  secretTaken,
  type WantedCredential,
} from "./credential.ts";

type WantedToken = Extract<WantedCredential, { readonly kind: "token" }>;

export interface TokenState {
  readonly identity: Pick<FoundIdentity, "id" | "authenticators" | "enrollment">;
  readonly secret: HeldSecret;
  /** It had a credential of the wanted method when it was looked at last. */
  readonly wasEnrolled: boolean;
  /** Value of the annotation re-enroll, when it was not acted on. */
  readonly reEnroll?: string | undefined;
  readonly now: Date;
}

/**
 * The next step towards a token in a Secret until a device has enrolled with it (docs/operator/identities.md, "A token for a device").
 * A token that ended unused is replaced; one that was used leaves, with its Secret.
 */
export function planToken(
  wanted: WantedToken,
  { identity, secret, wasEnrolled, reEnroll, now }: TokenState,
): CredentialStep {
  const { invitation, secretName } = wanted;
  const credential = identity.authenticators[invitation.method === "updb" ? "updb" : "cert"];
  const enrollment = identity.enrollment[invitation.method];
  const isForeign = secret.state === "foreign";
  // Before a credential is taken away there has to be a place for the token.
  if (isForeign && (credential === undefined || reEnroll !== undefined))
    return secretTaken(secretName, credential !== undefined);
  const expiresAt = endOf(now, wanted.tokenLifeMs);
  if (credential !== undefined) {
    if (reEnroll !== undefined) return { do: "re-enroll", authenticatorId: credential.id, expiresAt };
    if (secret.state === "ours" && secret.token !== undefined) return { do: "retract" };
    const message = `the identity has enrolled by ${invitation.method}`;
    return { do: "rest", state: { enrolled: { status: "True", reason: "Enrolled", message } } };
  }
  if (enrollment === undefined) {
    // A new token in the Secret would undo what an administrator did.
    if (wasEnrolled && reEnroll === undefined) return revoked("an administrator took the identity's credential away");
    return { do: "invite", invitation, expiresAt };
  }
  if (reEnroll !== undefined || new Date(enrollment.expiresAt) <= now) {
    return { do: "replace", enrollmentId: enrollment.id, invitation, expiresAt };
  }
  const { jwt } = enrollment;
  if (jwt === undefined) {
    const message = "the network does not show the token of the identity's enrollment to the operator";
    const enrolled = { status: "False", reason: "TokenMissing", message } as const;
    return { do: "rest", state: { enrolled, problem: { reason: "TokenMissing", message } } };
  }
  if (secret.state !== "ours" || secret.token !== jwt) return { do: "publish", jwt };
  const message = `the token in the Secret ${secretName} waits to be used; it is replaced when it ends, at ${enrollment.expiresAt}`;
  const enrolled = { status: "False", reason: "WaitingForDevice", message } as const;
  return { do: "rest", state: { enrolled, wakeAt: new Date(enrollment.expiresAt) } };
}

type WantedIdentity = Extract<WantedCredential, { readonly kind: "identity" }>;

export interface IdentitySecretState {
  readonly identity: Pick<FoundIdentity, "id" | "authenticators" | "enrollment" | "disabled">;
  readonly secret: HeldSecret;
  /** Whether the certificate that the network knows belongs to the key that waits in the Secret; undefined: not asked yet. */
  readonly fitsWaitingKey?: boolean | undefined;
  /** Value of the annotation re-enroll, when it was not acted on. */
  readonly reEnroll?: string | undefined;
  /** How long both certificates stand in the Secret before the new one is put in force, so that clients have it by then. */
  readonly settleMs: number;
  readonly now: Date;
}

/**
 * The next step towards an enrolled identity in a Secret (docs/operator/identities.md, "An identity in a Secret"). Every step leaves a state
 * from which the next look goes on, and none takes a working credential away, unless a user asked for it.
 */
export function planIdentitySecret(wanted: WantedIdentity, state: IdentitySecretState): CredentialStep {
  const { identity, secret, now } = state;
  const { cert } = identity.authenticators;
  if (secret.state === "foreign") return secretTaken(wanted.secretName, cert !== undefined);
  const own: OwnSecret = secret.state === "ours" ? secret : { state: "ours" };
  const reEnroll = state.reEnroll === own.reEnroll ? undefined : state.reEnroll;
  const expiresAt = endOf(now, wanted.tokenLifeMs);
  const invitation = { method: "ott" } as const;
  if (cert !== undefined) {
    if (reEnroll !== undefined) return { do: "re-enroll", authenticatorId: cert.id, expiresAt };
    return planEnrolled(wanted, state, own, cert.fingerprint);
  }
  const enrollment = identity.enrollment.ott;
  if (enrollment === undefined) {
    // A key that waits says that an enrollment was under way.
    const isRevoked = own.identity?.identityId === identity.id && own.enrolling !== identity.id;
    if (!isRevoked || reEnroll !== undefined) return { do: "invite", invitation, expiresAt };
    return withoutCertificate(revoked(`an administrator took the certificate of the Secret ${wanted.secretName} away`));
  }
  const { jwt } = enrollment;
  if (jwt === undefined || new Date(enrollment.expiresAt) <= now) {
    return { do: "replace", enrollmentId: enrollment.id, invitation, expiresAt };
  }
  const isPrepared = own.enrolling === identity.id && reEnroll === undefined;
  return { do: isPrepared ? "redeem" : "prepare", jwt };
}

function planEnrolled(
  wanted: WantedIdentity,
  state: IdentitySecretState,
  own: OwnSecret,
  inForce: string,
): CredentialStep {
  const { identity, next, former } = own;
  if (identity?.fingerprint === inForce) return planInForce(wanted, state, own, identity);
  if (next?.fingerprint === inForce) return { do: "promote" };
  if (identity !== undefined && former?.fingerprint === inForce) return planOverlap(wanted, state, identity, former);
  if (own.enrolling === state.identity.id && state.fitsWaitingKey !== false) return { do: "recover" };
  if (identity === undefined && own.enrolling === undefined) {
    const message = `the identity is enrolled, and its key is not in the Secret ${wanted.secretName}: put the Secret back, or let the identity enroll again, which ends what it has now: ${ASK}`;
    return withoutCertificate(lost("CredentialsMissing", message));
  }
  const message = `the network knows another certificate of the identity than the one in the Secret ${wanted.secretName}: another client enrolled or renewed it. To end that one and enroll again, ${ASK}`;
  return withoutCertificate(lost("EnrolledElsewhere", message));
}

function planInForce(
  wanted: WantedIdentity,
  { identity: { disabled }, settleMs, now }: IdentitySecretState,
  { next, former, enrolling }: OwnSecret,
  certificate: HeldCertificate,
): CredentialStep {
  const { notAfter } = certificate;
  if (enrolling !== undefined || former !== undefined) return { do: "tidy" };
  const renewAt = renewalTime(certificate, wanted.renewBeforeMs);
  const rest = atRest(wanted);
  if (next !== undefined && (next.identityId !== certificate.identityId || next.notAfter <= now)) return { do: "tidy" };
  if (disabled && renewAt <= now) {
    const message = `the certificate ends at ${iso(notAfter)} and can't be renewed while the identity is disabled`;
    const isOver = notAfter <= now;
    return rest(isOver ? over(certificate) : { status: "True", reason: "RenewalWaits", message });
  }
  if (next !== undefined) {
    const confirmAt = confirmTime(next.since, notAfter, settleMs);
    if (confirmAt <= now) return { do: "confirm" };
    const message = `a new certificate is in the Secret since ${iso(next.since)} and is put in force at ${iso(confirmAt)}`;
    return rest({ status: "True", reason: "Renewing", message }, { wakeAt: confirmAt });
  }
  if (renewAt <= now) return { do: "extend" };
  const message = `the certificate ends at ${iso(notAfter)} and is renewed at ${iso(renewAt)}`;
  return rest({ status: "True", reason: "Valid", message }, { wakeAt: renewAt });
}

/** Both certificates let the identity in, and the new one is where clients look: once they have it, the old one may end. */
function planOverlap(
  wanted: WantedIdentity,
  { identity: { disabled }, settleMs, now }: IdentitySecretState,
  certificate: HeldCertificate,
  former: FormerCertificate,
): CredentialStep {
  if (certificate.identityId !== former.identityId || certificate.notAfter <= now) return { do: "restore" };
  const confirmAt = confirmTime(former.since, former.notAfter, settleMs);
  if (confirmAt <= now && !disabled) return { do: "confirm" };
  const rest = atRest(wanted);
  if (disabled) {
    const message = "a new certificate is in the Secret and can't be confirmed while the identity is disabled";
    return rest({ status: "True", reason: "RenewalWaits", message });
  }
  const message = `a new certificate is in the Secret since ${iso(former.since)}; the old one counts beside it until ${iso(confirmAt)}`;
  return rest({ status: "True", reason: "Renewing", message }, { wakeAt: confirmAt });
}

/** How long both certificates stay in the Secret. A short life leaves less time to wait in. */
const confirmTime = (since: Date, notAfter: Date, settleMs: number): Date =>
  new Date(since.getTime() + Math.max(0, Math.min(settleMs, (notAfter.getTime() - since.getTime()) / 4)));

const atRest =
  ({ secretName }: WantedIdentity) =>
  (
    valid: NonNullable<CredentialState["certificate"]>,
    more: Omit<CredentialState, "enrolled"> = {},
  ): CredentialStep => {
    const message = `the Secret ${secretName} holds the identity`;
    const enrolled = { status: "True", reason: "Enrolled", message } as const;
    return { do: "rest", state: { enrolled, certificate: valid, ...more } };
  };

/** What is said of a certificate that ended. */
export function over({ notAfter }: HeldCertificate): NonNullable<CredentialState["certificate"]> {
  const message = `the certificate ended at ${iso(notAfter)} and could not be renewed: to enroll again, ${ASK}`;
  return { status: "False", reason: "CertificateExpired", message };
}

/** The network refuses the certificate in the Secret. */
function withoutCertificate(step: CredentialStep): CredentialStep {
  return step.do === "rest" ? { ...step, state: { ...step.state, certificate: step.state.enrolled } } : step;
}

const iso = (date: Date): string => `${date.toISOString().slice(0, 19)}Z`;
