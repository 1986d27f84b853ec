import { z } from "zod";
import { base } from "./entity.ts";
import { names, tags, tagsUnlessEmpty } from "./scalars.ts";

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
