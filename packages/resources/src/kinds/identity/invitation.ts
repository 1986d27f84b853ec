import type { IdentitySpec } from "./schema.ts";

/** What is sent to invite it, besides the end of the token. */
export type Invitation =
  | { readonly method: "ott" }
  | { readonly method: "ottca"; readonly caId: string }
  | { readonly method: "updb"; readonly username: string };

/** How a spec wants an identity invited; undefined: not at all. */
export function invitationOf({
  enrollment,
  externalId,
  managementPolicy,
}: Pick<IdentitySpec, "enrollment" | "externalId" | "managementPolicy">): Invitation | undefined {
  if (managementPolicy === "Observe") return undefined;
  if (enrollment !== undefined) return invitationBy(enrollment);
  return externalId === undefined ? { method: "ott" } : undefined;
}

function invitationBy({
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
