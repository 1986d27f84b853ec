import { z } from "zod";
import { base, entityRef } from "./entity.ts";
import { names, password, pem, tags, time, timeInput, username } from "./scalars.ts";

export const authenticatorCreate = z.object({
  identityId: z.string(),
  method: z.string(),
  certPem: pem.optional(),
  username: z.string().optional(),
  password: z.string().optional(),
  tags: tags.default({}),
});
export const authenticatorUpdate = z.object({ username, password, tags: tags.default({}) });
export const authenticatorPatch = z.object({
  username: username.optional(),
  password: password.optional(),
  tags: tags.optional(),
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
  username: z.string().optional(),
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
export const enrolled = z.strictObject({ ...enrollmentCerts.shape, username: z.string().optional() });

const authPolicyPrimary = z.strictObject({
  cert: z.strictObject({ allowExpiredCerts: z.boolean(), allowed: z.boolean() }),
  extJwt: z.strictObject({ allowed: z.boolean(), allowedSigners: names }),
  updb: z.strictObject({
    allowed: z.boolean(),
    lockoutDurationMinutes: z.int(),
    maxAttempts: z.int(),
    minPasswordLength: z.int(),
    requireMixedCase: z.boolean(),
    requireNumberChar: z.boolean(),
    requireSpecialChar: z.boolean(),
  }),
});
export const authPolicyDetail = z.strictObject({
  ...base,
  name: z.string(),
  primary: authPolicyPrimary,
  secondary: z.strictObject({ requireExtJwtSigner: z.string().nullable(), requireTotp: z.boolean() }),
});

const externalIdClaim = z.strictObject({
  index: z.int().nullable(),
  location: z.enum(["COMMON_NAME", "SAN_URI", "SAN_EMAIL"]).nullable(),
  matcher: z.enum(["ALL", "PREFIX", "SUFFIX", "SCHEME"]).nullable(),
  matcherCriteria: z.string().nullable(),
  parser: z.enum(["NONE", "SPLIT"]).nullable(),
  parserCriteria: z.string().nullable(),
});
export const caDetail = z.strictObject({
  ...base,
  certPem: pem,
  externalIdClaim: externalIdClaim.optional(),
  fingerprint: z.string(),
  identityNameFormat: z.string(),
  identityRoles: names,
  isAuthEnabled: z.boolean(),
  isAutoCaEnrollmentEnabled: z.boolean(),
  isOttCaEnrollmentEnabled: z.boolean(),
  isVerified: z.boolean(),
  name: z.string(),
  verificationToken: z.string().optional(),
});

const targetToken = z.enum(["ACCESS", "ID"]);
export const externalJwtSignerDetail = z.strictObject({
  ...base,
  audience: z.string(),
  certPem: pem.nullable(),
  claimsProperty: z.string(),
  clientId: z.string(),
  commonName: z.string(),
  enabled: z.boolean(),
  enrollAttributeClaimsSelector: z.string().optional(),
  enrollAuthPolicyId: z.string().optional(),
  enrollNameClaimsSelector: z.string().optional(),
  enrollToCertEnabled: z.boolean().optional(),
  enrollToTokenEnabled: z.boolean().optional(),
  externalAuthUrl: z.string().nullable(),
  fingerprint: z.string().nullable(),
  issuer: z.string(),
  jwksEndpoint: z.string().nullable(),
  kid: z.string(),
  name: z.string(),
  notAfter: time,
  notBefore: time,
  scopes: names,
  targetToken,
  useExternalId: z.boolean(),
});
export const clientExternalJwtSignerDetail = z.strictObject({
  ...base,
  audience: z.string().nullable().optional(),
  clientId: z.string().nullable(),
  enrollToCertEnabled: z.boolean().optional(),
  enrollToTokenEnabled: z.boolean().optional(),
  externalAuthUrl: z.string().nullable(),
  name: z.string(),
  openIdConfigurationUrl: z.string().optional(),
  scopes: names,
  targetToken: targetToken.optional(),
});
