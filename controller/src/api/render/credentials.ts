import {
  apiTime,
  type authenticatorDetail,
  type authPolicyDetail,
  type caDetail,
  type clientExternalJwtSignerDetail,
  type enrollmentDetail,
  type externalJwtSignerDetail,
  orNull,
  type revocationDetail,
  ZERO_TIME,
} from "@sallyport/api";
import type { Selectable } from "kysely";
import type { z } from "zod";
import { namesOf } from "../../model/entity.ts";
import type { AuthPolicyRow } from "../../model/identity/auth-policies.ts";
import type { AuthenticatorRow } from "../../model/identity/authenticators.ts";
import { type CaRow, storedClaim } from "../../model/identity/cas.ts";
import type { EnrollmentRow } from "../../model/identity/enrollments.ts";
import { DEFAULT_NAME_CLAIM } from "../../model/identity/ext-jwt-signers.ts";
import type { RevocationRow } from "../../model/session/revocations.ts";
import type { ExtJwtSignerTable } from "../../store/schema.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { baseOf, identityRef, links, ref } from "./base.ts";

export async function renderAuthenticators(
  deps: ApiDependencies,
  rows: readonly AuthenticatorRow[],
): Promise<z.input<typeof authenticatorDetail>[]> {
  const identityIds = rows.map((row) => row.identity_id);
  const names = await namesOf(deps.ctx.store.db, "identity", identityIds);
  return rows.map((row) => ({
    ...baseOf("authenticators", row),
    _links: { ...links("authenticators", row.id), identities: { href: `./identities/${row.identity_id}` } },
    identity: identityRef(row.identity_id, names.get(row.identity_id)),
    identityId: row.identity_id,
    method: row.method,
    ...(row.method === "updb"
      ? { username: row.username ?? "" }
      : {
          certPem: row.cert_pem ?? "",
          fingerprint: row.fingerprint ?? "",
          isIssuedByNetwork: row.is_issued_by_network,
          isExtendRequested: row.is_extend_requested,
          isKeyRollRequested: row.is_key_roll_requested,
          extendRequestedAt: row.extend_requested_at && apiTime(row.extend_requested_at),
          lastAuthResolvedToRoot: row.last_auth_resolved_to_root,
          lastExtendRolledKeys: row.last_extend_rolled_keys,
        }),
  }));
}

/** The same for their holder, with other addresses. */
export async function renderOwnAuthenticators(
  deps: ApiDependencies,
  rows: readonly AuthenticatorRow[],
): Promise<z.input<typeof authenticatorDetail>[]> {
  const rendered = await renderAuthenticators(deps, rows);
  return rendered.map((each) => ({
    ...each,
    _links: { self: { href: `./current-identity/authenticators/${each.id}` } },
  }));
}

export async function renderEnrollments(
  deps: ApiDependencies,
  rows: readonly EnrollmentRow[],
): Promise<z.input<typeof enrollmentDetail>[]> {
  const { db } = deps.ctx.store;
  const identityIds = rows.flatMap((row) => row.identity_id ?? []);
  const routerIds = rows.flatMap((row) => row.router_id ?? []);
  const identities = await namesOf(db, "identity", identityIds);
  const routers = await namesOf(db, "router", routerIds);
  return rows.map((row) => ({
    ...baseOf("enrollments", row),
    caId: row.ca_id ?? undefined,
    expiresAt: apiTime(row.expires_at),
    ...(row.identity_id !== null && {
      identity: identityRef(row.identity_id, identities.get(row.identity_id)),
      identityId: row.identity_id,
    }),
    ...(row.router_id !== null &&
      row.method === "erott" && {
        edgeRouter: ref("edge-routers", row.router_id, routers.get(row.router_id)),
        edgeRouterId: row.router_id,
      }),
    ...(row.router_id !== null &&
      row.method === "trott" && {
        transitRouter: ref("transit-routers", row.router_id, routers.get(row.router_id)),
        transitRouterId: row.router_id,
      }),
    jwt: row.jwt,
    method: row.method,
    token: row.token,
    username: row.username ?? undefined,
  }));
}

export function renderAuthPolicy(row: AuthPolicyRow): z.input<typeof authPolicyDetail> {
  return {
    ...baseOf("auth-policies", row),
    name: row.name,
    primary: {
      cert: { allowExpiredCerts: row.cert_allow_expired, allowed: row.cert_allowed },
      extJwt: { allowed: row.ext_jwt_allowed, allowedSigners: row.ext_jwt_signers },
      updb: {
        allowed: row.updb_allowed,
        lockoutDurationMinutes: row.updb_lockout_minutes,
        maxAttempts: row.updb_max_attempts,
        minPasswordLength: row.updb_min_password_length,
        requireMixedCase: row.updb_require_mixed_case,
        requireNumberChar: row.updb_require_number,
        requireSpecialChar: row.updb_require_special,
      },
    },
    secondary: { requireExtJwtSigner: row.require_ext_jwt_signer, requireTotp: row.require_totp },
  };
}

export function renderSigner(row: Selectable<ExtJwtSignerTable>): z.input<typeof externalJwtSignerDetail> {
  return {
    ...baseOf("external-jwt-signers", row),
    audience: row.audience ?? "",
    certPem: row.cert_pem,
    claimsProperty: row.claims_property ?? "sub",
    clientId: row.client_id,
    commonName: row.common_name,
    enabled: row.enabled,
    enrollAttributeClaimsSelector: row.enroll_attribute_claim ?? "",
    enrollAuthPolicyId: row.enroll_auth_policy_id ?? "",
    enrollNameClaimsSelector: row.enroll_name_claim ?? DEFAULT_NAME_CLAIM,
    enrollToCertEnabled: row.enroll_to_cert,
    enrollToTokenEnabled: row.enroll_to_token,
    externalAuthUrl: row.external_auth_url,
    fingerprint: row.fingerprint,
    issuer: row.issuer,
    jwksEndpoint: row.jwks_endpoint,
    kid: row.kid,
    name: row.name,
    notAfter: row.not_after === null ? ZERO_TIME : apiTime(row.not_after),
    notBefore: row.not_before === null ? ZERO_TIME : apiTime(row.not_before),
    scopes: orNull(row.scopes),
    targetToken: row.target_token === "ID" ? "ID" : "ACCESS",
    useExternalId: row.use_external_id,
  };
}

/** A signer as clients see it before they authenticate. */
export function renderClientSigner(row: Selectable<ExtJwtSignerTable>): z.input<typeof clientExternalJwtSignerDetail> {
  return {
    ...baseOf("external-jwt-signers", row),
    audience: row.audience,
    clientId: row.client_id,
    enrollToCertEnabled: row.enroll_to_cert,
    enrollToTokenEnabled: row.enroll_to_token,
    externalAuthUrl: row.external_auth_url,
    name: row.name,
    scopes: orNull(row.scopes),
    targetToken: row.target_token === "ID" ? "ID" : "ACCESS",
  };
}

/** A revocation; what it revokes is its id. */
export function renderRevocation(row: RevocationRow): z.input<typeof revocationDetail> {
  return { ...baseOf("revocations", row), expiresAt: apiTime(row.expires_at), type: row.type };
}

/** A certificate authority, with links to the operations that its state allows. */
export function renderCa(row: CaRow): z.input<typeof caDetail> {
  const base = baseOf("cas", row);
  const self = `./cas/${row.id}`;
  return {
    ...base,
    _links: {
      ...base._links,
      ...(!row.is_verified && { verify: { href: `${self}/verify` } }),
      ...(row.is_auto_ca_enrollment_enabled && { jwt: { href: `${self}/jwt` } }),
    },
    certPem: row.cert_pem,
    externalIdClaim: storedClaim(row) ?? undefined,
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
