import {
  type CredentialStep,
  endOf,
  type HeldSecret,
  revoked,
  secretTaken,
  type WantedCredential,
} from "./credential.ts";
import type { FoundIdentity } from "./entity.ts";

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
