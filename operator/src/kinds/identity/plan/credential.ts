import { parseDuration } from "@sallyport/router-config";
import type { IdentitySpec } from "../schema.ts";

/** How an identity is invited. */
export type InvitationMethod = "ott" | "ottca" | "updb";

/** What is sent to invite it, besides the end of the token. */
export type Invitation =
  | { readonly method: "ott" }
  | { readonly method: "ottca"; readonly caId: string }
  | { readonly method: "updb"; readonly username: string };

/** What the spec wants an identity to log in with. */
export type WantedCredential =
  /** The operator gives it nothing: it logs in by an outside issuer's tokens, or others look after it. */
  | { readonly kind: "none" }
  /** A token in a Secret, for whoever enrolls with it. */
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
const LONGEST_RENEW_BEFORE_MS = 30 * DAY_MS;

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
  const invitation = invitationOf(enrollment);
  if (invitation === undefined) return { kind: "none" };
  return { kind: "token", invitation, secretName: enrollment.secretName ?? `${metadata.name}-enrollment`, tokenLifeMs };
}

function invitationOf({
  method,
  caId,
  username,
  passwordSecretRef,
}: NonNullable<IdentitySpec["enrollment"]>): Invitation | undefined {
  switch (method) {
    case "ott":
      return { method };
    case "ottca":
      return caId === undefined ? undefined : { method, caId };
    case "updb":
      // With a password that the operator sets there is nothing to invite to.
      return username === undefined || passwordSecretRef !== undefined ? undefined : { method, username };
    case "none":
      return undefined;
  }
}

/** When a certificate is to be renewed: `renewBeforeMs`, or the smaller of 30 days and a third of its life, before it ends. */
export function renewalTime(
  { notBefore, notAfter }: { readonly notBefore: Date; readonly notAfter: Date },
  renewBeforeMs: number | undefined,
): Date {
  const life = notAfter.getTime() - notBefore.getTime();
  // Asked for more than half of its life, it would be renewed again and again.
  const before =
    renewBeforeMs === undefined ? Math.min(LONGEST_RENEW_BEFORE_MS, life / 3) : Math.min(renewBeforeMs, life / 2);
  return new Date(notAfter.getTime() - before);
}

const milliseconds = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : parseDuration(text);
