/** How identities enroll and authenticate: policies, external signers of tokens, certificate authorities. */
import { z } from "zod";
import { base } from "./entity.ts";
import { controllerDetail } from "./informational.ts";
import { names, namesOrNull, password, patchOf, pem, tags, tagsUnlessEmpty, time, username } from "./scalars.ts";

const certificates = { allowExpiredCerts: z.boolean(), allowed: z.boolean() };
/** `allowedSigners` holds ids of signers; none means any that is enabled. */
const externalTokens = { allowed: z.boolean(), allowedSigners: names };
/** `maxAttempts` 0: without limit. `lockoutDurationMinutes` 0: until an administrator enables the identity. */
const passwords = {
  allowed: z.boolean(),
  lockoutDurationMinutes: z.int(),
  maxAttempts: z.int(),
  minPasswordLength: z.int(),
  requireMixedCase: z.boolean(),
  requireNumberChar: z.boolean(),
  requireSpecialChar: z.boolean(),
};

export const authPolicyCreate = z.object({
  name: z.string(),
  primary: z.object({
    cert: z.object(certificates),
    extJwt: z.object(externalTokens),
    updb: z.object(passwords),
  }),
  secondary: z.object({ requireExtJwtSigner: z.string().optional(), requireTotp: z.boolean() }),
  tags: tags.default({}),
});
export const authPolicyUpdate = authPolicyCreate;
/** Only the leaves that are there count; a `requireExtJwtSigner` of `""` takes the requirement away. */
export const authPolicyPatch = z.object({
  name: z.string().optional(),
  primary: z
    .object({
      cert: z.object(certificates).partial().optional(),
      extJwt: z.object(externalTokens).partial().optional(),
      updb: z.object(passwords).partial().optional(),
    })
    .optional(),
  secondary: z.object({ requireExtJwtSigner: z.string().optional(), requireTotp: z.boolean().optional() }).optional(),
  tags: tagsUnlessEmpty,
});
export const authPolicyDetail = z.strictObject({
  ...base,
  name: z.string(),
  primary: z.strictObject({
    cert: z.strictObject(certificates),
    extJwt: z.strictObject(externalTokens),
    updb: z.strictObject(passwords),
  }),
  secondary: z.strictObject({ requireExtJwtSigner: z.string().nullable(), requireTotp: z.boolean() }),
});

const revocationType = z.enum(["JTI", "API_SESSION", "IDENTITY"]);
/** `id`: of a token (its `jti`), an API session or an identity. */
export const revocationCreate = z.object({ id: z.string(), type: revocationType, tags: tags.default({}) });
export const revocationDetail = z.strictObject({ ...base, expiresAt: time, type: revocationType });

/** Bodies of all enrollment operations; which fields count depends on the method. */
export const enroll = z.object({
  token: z.string().optional(),
  name: z.string().optional(),
  clientCsr: pem.optional(),
  certCsr: pem.optional(),
  serverCertCsr: pem.optional(),
  serverCsr: pem.optional(),
  username: username.optional(),
  password: password.optional(),
});
export const routerExtend = z.object({ certCsr: pem, serverCertCsr: pem });
export const enrollmentCerts = z.strictObject({ ca: pem.optional(), cert: pem.optional(), serverCert: pem.optional() });
/** `{cert}` for `ott`, `{cert, serverCert, ca}` for routers, `{username}` for `updb`, `{}` for presented certificates. */
export const enrolled = z.strictObject({
  ...enrollmentCerts.shape,
  username: z.string().optional(),
  /** Where the identity may authenticate. Absent for routers, and where only a certificate is presented. */
  controllers: z.array(controllerDetail).optional(),
});
/** With a request a certificate is issued; without one, the identity authenticates by tokens of the signer. */
export const tokenEnrollment = z.object({ clientCsr: pem.optional() });
/** Asks the holder of a certificate to extend it, with a new key when `rollKeys`. */
export const requestExtend = z.object({ rollKeys: z.boolean().default(false) });

/** An address that a browser opens; `""` counts as not set. */
const webUrl = z
  .string()
  .refine((text) => text.trim() === "" || (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)), {
    error: "expected a URL with http or https",
  })
  .meta({ format: "uri" });

const targetToken = z.enum(["ACCESS", "ID"]);

/** Exactly one of `certPem` (one certificate) and `jwksEndpoint` is set; `""` counts as not set. */
const signerFields = {
  /** null: none yet. Without one no token is right. */
  audience: z.string().nullable(),
  certPem: pem.optional(),
  claimsProperty: z.string().optional(),
  clientId: z.string().optional(),
  enabled: z.boolean(),
  /** Claims are named, or given as JSON pointers (`/realm/roles`). */
  enrollAttributeClaimsSelector: z.string().optional(),
  enrollAuthPolicyId: z.string().optional(),
  enrollNameClaimsSelector: z.string().optional(),
  enrollToCertEnabled: z.boolean().optional(),
  enrollToTokenEnabled: z.boolean().optional(),
  externalAuthUrl: webUrl.optional(),
  issuer: z.string(),
  jwksEndpoint: z.string().optional(),
  kid: z.string().optional(),
  name: z.string(),
  scopes: names.optional(),
  tags: tags.default({}),
  targetToken: targetToken.optional(),
  useExternalId: z.boolean().optional(),
};
export const externalJwtSignerCreate = z.object(signerFields);
export const externalJwtSignerUpdate = externalJwtSignerCreate;
export const externalJwtSignerPatch = patchOf({ ...signerFields, audience: z.string() }).extend({
  tags: tagsUnlessEmpty,
});
export const externalJwtSignerDetail = z.strictObject({
  ...base,
  audience: z.string(),
  certPem: pem.nullable(),
  claimsProperty: z.string(),
  clientId: z.string().nullable(),
  commonName: z.string(),
  enabled: z.boolean(),
  enrollAttributeClaimsSelector: z.string(),
  enrollAuthPolicyId: z.string(),
  enrollNameClaimsSelector: z.string(),
  enrollToCertEnabled: z.boolean(),
  enrollToTokenEnabled: z.boolean(),
  externalAuthUrl: z.string().nullable(),
  fingerprint: z.string().nullable(),
  issuer: z.string(),
  jwksEndpoint: z.string().nullable(),
  kid: z.string().nullable(),
  name: z.string(),
  notAfter: time,
  notBefore: time,
  scopes: namesOrNull,
  targetToken,
  useExternalId: z.boolean(),
});
/** What clients are told before they authenticate. */
export const clientExternalJwtSignerDetail = z.strictObject({
  ...base,
  audience: z.string().nullable(),
  clientId: z.string().nullable(),
  enrollToCertEnabled: z.boolean(),
  enrollToTokenEnabled: z.boolean(),
  externalAuthUrl: z.string().nullable(),
  name: z.string(),
  scopes: namesOrNull,
  targetToken,
});

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
