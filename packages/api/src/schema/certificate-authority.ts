import { z } from "zod";
import { base } from "./entity.ts";
import { names, namesOrNull, patchOf, pem, tags, tagsUnlessEmpty } from "./scalars.ts";

/** Which part of a certificate is the identity's `externalId` (docs/protocol/certificate-login.md, "Claims"). */
export const externalIdClaim = z.strictObject({
  index: z.int().nullable(),
  location: z.enum(["COMMON_NAME", "SAN_URI", "SAN_EMAIL"]).nullable(),
  matcher: z.enum(["ALL", "PREFIX", "SUFFIX", "SCHEME"]).nullable(),
  matcherCriteria: z.string().nullable(),
  parser: z.enum(["NONE", "SPLIT"]).nullable(),
  parserCriteria: z.string().nullable(),
});
/** In requests keys beyond these are ignored, as everywhere. */
const claimInput = z.object(externalIdClaim.shape);
/** In a patch null is the same as leaving a part out. */
const claimPatch = z.object({
  index: z.int().optional(),
  location: externalIdClaim.shape.location.unwrap().optional(),
  matcher: externalIdClaim.shape.matcher.unwrap().optional(),
  matcherCriteria: z.string().optional(),
  parser: externalIdClaim.shape.parser.unwrap().optional(),
  parserCriteria: z.string().optional(),
});

export const caUpdate = z.object({
  name: z.string(),
  identityRoles: names,
  identityNameFormat: z.string(),
  isAuthEnabled: z.boolean(),
  isAutoCaEnrollmentEnabled: z.boolean(),
  isOttCaEnrollmentEnabled: z.boolean(),
  externalIdClaim: claimInput.optional(),
  tags: tags.default({}),
});
export const caCreate = z.object({ ...caUpdate.shape, certPem: pem, identityNameFormat: z.string().default("") });
export const caPatch = z.object({
  ...patchOf(caUpdate.shape).shape,
  externalIdClaim: claimPatch.optional(),
  tags: tagsUnlessEmpty,
});
export const caDetail = z.strictObject({
  ...base,
  certPem: pem,
  externalIdClaim: externalIdClaim.optional(),
  fingerprint: z.string(),
  identityNameFormat: z.string(),
  identityRoles: namesOrNull,
  isAuthEnabled: z.boolean(),
  isAutoCaEnrollmentEnabled: z.boolean(),
  isOttCaEnrollmentEnabled: z.boolean(),
  isVerified: z.boolean(),
  name: z.string(),
  verificationToken: z.string().optional(),
});
