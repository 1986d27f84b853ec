import type { Invitation } from "./credential.ts";

interface Aspect {
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

/** How an identity stands with its credentials when there is nothing to do. */
export interface Standing {
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
  | { readonly do: "rest"; readonly standing: Standing };

/** The end of a token that is asked for now. */
export const endOf = (now: Date, lifeMs: number): Date => new Date(now.getTime() + lifeMs);

/** How people ask for what is never done by itself. */
export const ASK = "annotate the Identity with sallyport.dev/re-enroll and any new value";

/** Reason of what {@link revoked} says. */
export const REVOKED = "CredentialsRevoked";

/** The step of an identity that somebody has locked out by taking its credential away. */
export const revoked = (what: string): CredentialStep => lost(REVOKED, `${what}: to give it a new one, ${ASK}`);

/** The step of an identity whose credentials only a person can put right. */
export function lost(reason: string, message: string): CredentialStep {
  const enrolled = { status: "False", reason, message } as const;
  return { do: "rest", standing: { enrolled, problem: { reason, message } } };
}

/** The step of an identity whose Secret's name is taken. */
export function secretTaken(name: string, isEnrolled: boolean): CredentialStep {
  const message = `the Secret ${name} exists and is not the operator's, so it is left as it is: delete it, or choose another name by spec.enrollment.secretName, which can be set once`;
  const enrolled = { status: isEnrolled ? "True" : "False", reason: "SecretConflict", message } as const;
  return { do: "rest", standing: { enrolled, problem: { reason: "SecretConflict", message } } };
}
