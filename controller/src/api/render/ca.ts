import { type caDetail, orNull } from "@sallyport/api";
import type { z } from "zod";
import { type CaRow, storedClaim } from "../../model/identity/cas.ts";
import { baseOf } from "./base.ts";

/** A certificate authority, with the links to what can be done with it now. */
export function renderCa(row: CaRow): z.input<typeof caDetail> {
  const base = baseOf("cas", row);
  const claim = storedClaim(row);
  const self = `./cas/${row.id}`;
  return {
    ...base,
    _links: {
      ...base._links,
      ...(row.is_verified ? {} : { verify: { href: `${self}/verify` } }),
      ...(row.is_auto_ca_enrollment_enabled ? { jwt: { href: `${self}/jwt` } } : {}),
    },
    certPem: row.cert_pem,
    ...(claim === null ? {} : { externalIdClaim: claim }),
    fingerprint: row.fingerprint,
    identityNameFormat: row.identity_name_format,
    identityRoles: orNull(row.identity_roles),
    isAuthEnabled: row.is_auth_enabled,
    isAutoCaEnrollmentEnabled: row.is_auto_ca_enrollment_enabled,
    isOttCaEnrollmentEnabled: row.is_ott_ca_enrollment_enabled,
    isVerified: row.is_verified,
    name: row.name,
    verificationToken: row.verification_token,
  };
}
