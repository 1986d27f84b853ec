import { z } from "zod";
import { base } from "./entity.ts";
import { names } from "./scalars.ts";

/** A one-time code, or where an operation takes them a recovery code. */
export const mfaCode = z.object({ code: z.string() });
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
