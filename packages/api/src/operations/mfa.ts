/** One-time codes as second factor: what both APIs have, and what administrators have besides. */
import { action, call, detail, emptyBody, json, optionalJson, raw } from "../operation.ts";
import { mfaCode, mfaDetail, mfaRecoveryCodes, optionalMfaCode } from "../schema/authenticator.ts";
import { createLocation } from "../schema/entity.ts";

const CODE = { name: "mfa-validation-code", description: "A one-time code or a recovery code" };

export const mfaOperations = {
  authenticateMfa: action(
    "POST",
    "/authenticate/mfa",
    "partial",
    json(mfaCode),
    "Complete the authentication of a session by a one-time or recovery code",
    { errors: [400, 401, 409, 429] },
  ),
  detailMfa: detail(
    "/current-identity/mfa",
    "partial",
    mfaDetail,
    "The caller's TOTP enrollment; until it is verified with what an authenticator app needs",
    { errors: [401, 404] },
  ),
  enrollMfa: call(
    "POST",
    "/current-identity/mfa",
    "partial",
    emptyBody,
    createLocation,
    "Begin to use one-time codes; in force once a code was verified",
    { status: 201, errors: [401, 409] },
  ),
  deleteMfa: {
    ...action(
      "DELETE",
      "/current-identity/mfa",
      "full",
      emptyBody,
      "Stop to use one-time codes; a code in the header `mfa-validation-code`, none while the enrollment is not verified",
      { errors: [400, 401, 404, 429] },
    ),
    headers: [CODE],
  },
  detailMfaQrCode: {
    ...raw(
      "/current-identity/mfa/qr-code",
      "partial",
      ["image/png"],
      "The provisioning URL as a QR code, until the enrollment is verified",
    ),
    errors: [401, 404],
  },
  detailMfaRecoveryCodes: {
    ...call(
      "GET",
      "/current-identity/mfa/recovery-codes",
      "full",
      optionalJson(optionalMfaCode),
      mfaRecoveryCodes,
      "The unused recovery codes, for a one-time code in the header `mfa-validation-code` or the body",
      { errors: [400, 401, 404, 429] },
    ),
    headers: [{ ...CODE, description: "A one-time code" }],
  },
  createMfaRecoveryCodes: action(
    "POST",
    "/current-identity/mfa/recovery-codes",
    "full",
    json(mfaCode),
    "New recovery codes in place of all others, for a one-time or recovery code",
    { errors: [400, 401, 404, 429] },
  ),
  verifyMfa: action(
    "POST",
    "/current-identity/mfa/verify",
    "partial",
    json(mfaCode),
    "Put one-time codes in force by a first one, which completes this session, too",
    { errors: [400, 401, 404, 429] },
  ),
};

export const mfaAdministration = {
  removeIdentityMfa: action(
    "DELETE",
    "/identities/{id}/mfa",
    "admin",
    emptyBody,
    "Remove an identity's TOTP enrollment, for a user who lost the codes",
    { errors: [401, 404, 429] },
  ),
};
