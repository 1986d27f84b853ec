import { z } from "zod";
import { base, entityRef } from "./entity.ts";
import { names, ownTags, password, pem, tags, time, timeInput, username, usernameOrBlank } from "./scalars.ts";

export const authenticatorCreate = z.object({
  identityId: z.string(),
  method: z.string(),
  certPem: pem.optional(),
  username: username.optional(),
  password: password.optional(),
  tags: tags.default({}),
});
export const authenticatorUpdate = z.object({ username, password, tags: tags.default({}) });
export const authenticatorPatch = z.object({
  username: username.optional(),
  password: password.optional(),
  tags: tags.optional(),
});
/** What holders send to change their own. */
export const authenticatorUpdateWithCurrent = z.object({
  ...authenticatorUpdate.shape,
  tags: ownTags.default({}),
  currentPassword: password,
});
export const authenticatorPatchWithCurrent = z.object({
  ...authenticatorPatch.shape,
  tags: ownTags.optional(),
  currentPassword: password,
});
export const authenticatorDetail = z.strictObject({
  ...base,
  certPem: pem.optional(),
  extendRequestedAt: time.nullable().optional(),
  fingerprint: z.string().optional(),
  identity: entityRef,
  identityId: z.string(),
  isExtendRequested: z.boolean().optional(),
  isIssuedByNetwork: z.boolean().optional(),
  isKeyRollRequested: z.boolean().optional(),
  lastAuthResolvedToRoot: z.boolean().optional(),
  lastExtendRolledKeys: z.boolean().optional(),
  method: z.string(),
  username: z.string().optional(),
});

export const expiry = z.object({ expiresAt: timeInput });

export const enrollmentCreate = z.object({
  identityId: z.string(),
  method: z.enum(["ott", "ottca", "updb"]),
  expiresAt: timeInput,
  caId: z.string().optional(),
  username: usernameOrBlank.optional(),
});
export const enrollmentDetail = z.strictObject({
  ...base,
  caId: z.string().nullable().optional(),
  edgeRouter: entityRef.optional(),
  edgeRouterId: z.string().optional(),
  expiresAt: time,
  identity: entityRef.optional(),
  identityId: z.string().optional(),
  jwt: z.string().optional(),
  method: z.string(),
  token: z.string(),
  transitRouter: entityRef.optional(),
  transitRouterId: z.string().optional(),
  username: z.string().optional(),
});

/** A one-time code, or where an operation takes them a recovery code. */
export const mfaCode = z.object({ code: z.string() });
/** What an access token's session has proved by a code, for routers of 2.x. */
export const totpToken = z.strictObject({ token: z.string(), issuedAt: time });
/** The same where the code may come in the header `mfa-validation-code` instead. */
export const optionalMfaCode = z.object({ code: z.string().optional() });

export const mfaDetail = z.strictObject({
  ...base,
  isVerified: z.boolean(),
  /** Only while the enrollment is not verified. */
  provisioningUrl: z.string().optional(),
  recoveryCodes: names.nullable(),
});

export const mfaRecoveryCodes = z.strictObject({ ...base, recoveryCodes: names });
