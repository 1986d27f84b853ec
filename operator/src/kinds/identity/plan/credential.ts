import { parseDuration } from "@sallyport/config-file";
import { type IdentitySpec, type Invitation, invitationOf } from "@sallyport/resources";

/** What the spec wants an identity to log in with. */
export type WantedCredential =
  /** The operator gives it nothing: it logs in by an outside issuer's tokens, or others look after it. */
  | { readonly kind: "none" }
  /** A token in a Secret, for a device that enrolls with it. */
  | {
      readonly kind: "token";
      readonly invitation: Invitation;
      readonly secretName: string;
      readonly tokenLifeMs: number;
    }
  /** An identity in a Secret, enrolled and renewed by the operator. */
  | {
      readonly kind: "identity";
      readonly secretName: string;
      readonly tokenLifeMs: number;
      /** Undefined: {@link renewalTime} decides. */
      readonly renewBeforeMs: number | undefined;
    };

const DAY_MS = 86_400_000;
/** Of the tokens that the operator asks for; what a network gives to a new identity may live for another time. */
const TOKEN_LIFE_MS = DAY_MS;
const MAX_RENEW_BEFORE_MS = 30 * DAY_MS;

interface Asking {
  readonly metadata: { readonly name: string };
  readonly spec: Pick<IdentitySpec, "enrollment" | "externalId" | "managementPolicy">;
}

export function wantedCredential({ metadata, spec }: Asking): WantedCredential {
  const { enrollment = { method: "ott", output: "JwtSecret" }, externalId, managementPolicy } = spec;
  if (managementPolicy === "Observe" || (externalId !== undefined && spec.enrollment === undefined)) {
    return { kind: "none" };
  }
  const tokenLifeMs = milliseconds(enrollment.tokenLifetime) ?? TOKEN_LIFE_MS;
  if (enrollment.output === "IdentitySecret" && enrollment.method === "ott") {
    const secretName = enrollment.secretName ?? `${metadata.name}-identity`;
    return { kind: "identity", secretName, tokenLifeMs, renewBeforeMs: milliseconds(enrollment.renewBefore) };
  }
  const invitation = invitationOf(spec);
  if (invitation === undefined) return { kind: "none" };
  return { kind: "token", invitation, secretName: enrollment.secretName ?? `${metadata.name}-enrollment`, tokenLifeMs };
}

/** When a certificate is to be renewed: `renewBeforeMs`, or the smaller of 30 days and a third of its life, before it ends. */
export function renewalTime(
  { notBefore, notAfter }: { readonly notBefore: Date; readonly notAfter: Date },
  renewBeforeMs: number | undefined,
): Date {
  const life = notAfter.getTime() - notBefore.getTime();
  // Asked for more than half of its life, it would be renewed again and again.
  const before =
    renewBeforeMs === undefined ? Math.min(MAX_RENEW_BEFORE_MS, life / 3) : Math.min(renewBeforeMs, life / 2);
  return new Date(notAfter.getTime() - before);
}

const milliseconds = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : parseDuration(text);

/** A certificate of an identity, as far as plans look at it. */
export interface HeldCertificate {
  /** SHA-1, 40 lower-case hex digits. */
  readonly fingerprint: string;
  /** Id of the identity, which is its subject. */
  readonly identityId: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** A certificate that was issued to replace the one in force, and is not in force itself. */
interface StagedCertificate extends HeldCertificate {
  /** Since when clients can find it. */
  readonly since: Date;
}

/** The certificate in force, whose place in the Secret has been taken by the one that replaces it. */
export interface FormerCertificate extends HeldCertificate {
  /** Since when clients can find the other one. */
  readonly since: Date;
}

/** What stands under the name of an identity's Secret (docs/operator/identities.md, "The Secret"). */
export type HeldSecret =
  | { readonly state: "absent" }
  /** The operator did not make it. */
  | { readonly state: "foreign" }
  | {
      readonly state: "ours";
      /** Enrollment token, when there is one. */
      readonly token?: string | undefined;
      readonly identity?: HeldCertificate | undefined;
      readonly next?: StagedCertificate | undefined;
      readonly former?: FormerCertificate | undefined;
      /** Id of the identity for which a key was made that has no certificate yet. */
      readonly enrolling?: string | undefined;
      /** Value of the annotation re-enroll that the key was made for. */
      readonly reEnroll?: string | undefined;
    };

export type OwnSecret = Extract<HeldSecret, { readonly state: "ours" }>;

interface Aspect {
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

/** How an identity stands with its credentials when there is nothing to do. */
export interface CredentialState {
  readonly enrolled: Aspect;
  /** Of the certificate in the Secret. */
  readonly certificate?: Aspect;
  /** What a person has to do something about. */
  readonly problem?: { readonly reason: string; readonly message: string };
  /** When there will be something to do. */
  readonly wakeAt?: Date;
}

/** The next thing to do about an identity's credentials; after it the state is looked at again. */
export type CredentialStep =
  /** Make an enrollment. */
  | { readonly do: "invite"; readonly invitation: Invitation; readonly expiresAt: Date }
  /**
   * Take an enrollment away and make another one: servers of the family sign the token of one that is refreshed wrongly.
   * `enrollmentId` undefined: the server did not tell it.
   */
  | {
      readonly do: "replace";
      readonly enrollmentId: string | undefined;
      readonly invitation: Invitation;
      readonly expiresAt: Date;
    }
  /** Take a credential away, with an enrollment in its place. */
  | { readonly do: "re-enroll"; readonly authenticatorId: string; readonly expiresAt: Date }
  /** Put a token into the Secret. */
  | { readonly do: "publish"; readonly jwt: string }
  /** Take the Secret with a token away. */
  | { readonly do: "retract" }
  /** Make a key and put it into the Secret, before anything depends on it. */
  | { readonly do: "prepare"; readonly jwt: string }
  /** Use the token up for a certificate of that key, and put it into the Secret. */
  | { readonly do: "redeem"; readonly jwt: string }
  /** The token was used up, but the answer never came into the Secret: ask for the certificate. */
  | { readonly do: "recover" }
  /** Ask for a certificate that replaces the one in force, and put it into the Secret beside that. */
  | { readonly do: "extend" }
  /** Put it in force. */
  | { readonly do: "confirm" }
  /** It is in force: make it the identity of the Secret. */
  | { readonly do: "promote" }
  /** It is of no use: the one before takes its place in the Secret again. */
  | { readonly do: "restore" }
  /** Take out of the Secret what is of no use any more. */
  | { readonly do: "tidy" }
  | { readonly do: "rest"; readonly state: CredentialState };

/** When a token ends that the network makes at `now`. */
export const endOf = (now: Date, lifeMs: number): Date => new Date(now.getTime() + lifeMs);

/** How people ask for what is never done by itself. */
export const ASK = "annotate the Identity with sallyport.dev/re-enroll and any new value";

/** Reason of what {@link revoked} says. */
export const REVOKED = "CredentialsRevoked";

/** The step of an identity that an administrator locked out by taking its credential away. */
export const revoked = (what: string): CredentialStep => lost(REVOKED, `${what}: to give it a new one, ${ASK}`);

/** The step of an identity whose credentials only a person can put right. */
export function lost(reason: string, message: string): CredentialStep {
  const enrolled = { status: "False", reason, message } as const;
  return { do: "rest", state: { enrolled, problem: { reason, message } } };
}

/** The step of an identity whose Secret's name is taken. */
export function secretTaken(name: string, isEnrolled: boolean): CredentialStep {
  const message = `the Secret ${name} exists and is not the operator's, so it is left as it is: delete it, or choose another name by spec.enrollment.secretName, which can be set once`;
  const enrolled = { status: isEnrolled ? "True" : "False", reason: "SecretConflict", message } as const;
  return { do: "rest", state: { enrolled, problem: { reason: "SecretConflict", message } } };
}
