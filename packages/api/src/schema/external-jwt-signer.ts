import { z } from "zod";
import { base } from "./entity.ts";
import { names, namesOrNull, patchOf, pem, tags, tagsUnlessEmpty, time } from "./scalars.ts";

/** An address that a browser opens; `""` counts as not set. */
const webUrl = z
  .string()
  .refine((text) => text.trim() === "" || (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)), {
    error: "expected a URL with http or https",
  })
  .meta({ format: "uri" });

const targetToken = z.enum(["ACCESS", "ID"]);

/** Exactly one of `certPem` (one certificate) and `jwksEndpoint` is set; `""` counts as not set. */
const fields = {
  /** null: none yet. Without one no token is right. */
  audience: z.string().nullable(),
  certPem: pem.optional(),
  claimsProperty: z.string().optional(),
  clientId: z.string().optional(),
  enabled: z.boolean(),
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
export const externalJwtSignerCreate = z.object(fields);
export const externalJwtSignerUpdate = externalJwtSignerCreate;
export const externalJwtSignerPatch = patchOf({ ...fields, audience: z.string() }).extend({ tags: tagsUnlessEmpty });
export const externalJwtSignerDetail = z.strictObject({
  ...base,
  audience: z.string(),
  certPem: pem.nullable(),
  claimsProperty: z.string(),
  clientId: z.string().nullable(),
  commonName: z.string(),
  enabled: z.boolean(),
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
  externalAuthUrl: z.string().nullable(),
  name: z.string(),
  scopes: namesOrNull,
  targetToken,
});
