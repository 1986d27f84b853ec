/**
 * The public symbols of each collection: what its filters and sorts may name (`docs/api.md`, "Filters"). Secrets (tokens of sessions and enrollments,
 * password hashes) are no symbols. The Client API has only fields that its answers show: a filter on a hidden field would reveal its value step by step.
 */
import { sql } from "kysely";
import { selectsRow } from "../../model/policy/selection-sql.ts";
import { type EntityFields, field } from "../../store/filter/filter-sql.ts";

function base(table: string): EntityFields {
  return {
    id: field.string(`${table}.id`),
    createdAt: field.datetime(`${table}.created_at`),
    updatedAt: field.datetime(`${table}.updated_at`),
    tags: field.tags(`${table}.tags`),
    isSystem: field.boolean(`${table}.is_system`),
  };
}

function named(table: string): EntityFields {
  return { ...base(table), name: field.string(`${table}.name`, { unique: true }) };
}

export const IDENTITY_FIELDS: EntityFields = {
  ...named("identity"),
  roleAttributes: field.array("identity.attrs"),
  externalId: field.string("identity.external_id", { nullable: true }),
  type: field.string("identity.type_id"),
  authPolicyId: field.string("identity.auth_policy_id"),
  isAdmin: field.boolean("identity.is_admin"),
  isDefaultAdmin: field.boolean("identity.is_default_admin"),
  disabled: field.boolean(
    sql`(identity.disabled_at IS NOT NULL AND (identity.disabled_until IS NULL OR identity.disabled_until > now()))`,
  ),
};

export const SERVICE_FIELDS: EntityFields = {
  ...named("service"),
  terminatorStrategy: field.string("service.terminator_strategy"),
  roleAttributes: field.array("service.attrs"),
  configs: field.rows(sql`SELECT sc.config_id AS value FROM service_config sc WHERE sc.service_id = service.id`),
  terminators: field.rows(sql`SELECT t.id AS value FROM terminator t WHERE t.service_id = service.id`),
};

/** Connection state is not in the store: the ids of the connected routers come with the request. */
export function routerFields(onlineIds: readonly string[]): EntityFields {
  const online = sql`(router.id = ANY (${onlineIds}::text[]))`;
  return {
    ...named("router"),
    fingerprint: field.string("router.fingerprint", { nullable: true }),
    cost: field.number("router.cost"),
    noTraversal: field.boolean("router.no_traversal"),
    disabled: field.boolean("router.disabled"),
    roleAttributes: field.array("router.attrs"),
    configs: field.rows(sql`SELECT rc.config_id AS value FROM router_config rc WHERE rc.router_id = router.id`),
    isVerified: field.boolean("router.is_verified"),
    isTunnelerEnabled: field.boolean("router.is_tunneler_enabled"),
    connected: field.boolean(online),
    online: field.boolean(online),
  };
}

/** What is known of every router, edge router or not. */
export function transitRouterFields(onlineIds: readonly string[]): EntityFields {
  const { roleAttributes: _r, isVerified: _v, isTunnelerEnabled: _t, online: _o, ...common } = routerFields(onlineIds);
  return common;
}

export const POSTURE_CHECK_FIELDS: EntityFields = {
  ...named("posture_check"),
  typeId: field.string("posture_check.type_id"),
  promptOnWake: field.boolean(sql`COALESCE((posture_check.data->>'promptOnWake')::boolean, false)`),
  promptOnUnlock: field.boolean(sql`COALESCE((posture_check.data->>'promptOnUnlock')::boolean, false)`),
};

export const CONFIG_TYPE_FIELDS: EntityFields = {
  ...named("config_type"),
  schema: field.string(sql`config_type.schema::text`, { nullable: true }),
  target: field.string("config_type.target"),
};

export const CONFIG_FIELDS: EntityFields = { ...named("config"), type: field.string("config.config_type_id") };

function roles(table: string, side: string) {
  const all = sql.ref(`${table}.${side}_all`);
  const attrs = sql.ref(`${table}.${side}_attrs`);
  return field.rows(sql`SELECT '#all' AS value WHERE ${all}
    UNION ALL SELECT '#' || a FROM unnest(${attrs}) a
    UNION ALL SELECT '@' || f.entity_id FROM ${sql.table(`${table}_ref`)} f
      WHERE f.policy_id = ${sql.ref(`${table}.id`)} AND f.side = ${side}`);
}

/** Ids of what a service policy selects on a side. */
function members(side: "identity" | "service") {
  return field.rows(sql`SELECT member.id AS value FROM ${sql.table(side)} member
    WHERE ${selectsRow("service_policy", side, "member", "service_policy")}`);
}

export const POLICY_FIELDS = {
  service_policy: {
    ...named("service_policy"),
    // Clients before 2.0 filter by the number, later ones by the word.
    type: field.word("service_policy.type", { Dial: 1, Bind: 2 }),
    semantic: field.string("service_policy.semantic"),
    identityRoles: roles("service_policy", "identity"),
    serviceRoles: roles("service_policy", "service"),
    postureCheckRoles: roles("service_policy", "posture_check"),
    identities: members("identity"),
    services: members("service"),
  },
  edge_router_policy: {
    ...named("edge_router_policy"),
    semantic: field.string("edge_router_policy.semantic"),
    identityRoles: roles("edge_router_policy", "identity"),
    edgeRouterRoles: roles("edge_router_policy", "router"),
  },
  service_edge_router_policy: {
    ...named("service_edge_router_policy"),
    semantic: field.string("service_edge_router_policy.semantic"),
    serviceRoles: roles("service_edge_router_policy", "service"),
    edgeRouterRoles: roles("service_edge_router_policy", "router"),
  },
} as const satisfies Record<string, EntityFields>;

export const TERMINATOR_FIELDS: EntityFields = {
  ...base("terminator"),
  binding: field.string("terminator.binding"),
  address: field.string("terminator.address"),
  instanceId: field.string("terminator.instance_id"),
  hostId: field.string("terminator.host_id"),
  sourceCtrl: field.string("terminator.source_ctrl"),
  service: field.string("terminator.service_id"),
  router: field.string("terminator.router_id"),
  "service.name": field.string(sql`(SELECT s.name FROM service s WHERE s.id = terminator.service_id)`),
  "router.name": field.string(sql`(SELECT r.name FROM router r WHERE r.id = terminator.router_id)`),
};

export const AUTHENTICATOR_FIELDS: EntityFields = {
  ...base("authenticator"),
  method: field.string("authenticator.method"),
  identity: field.string("authenticator.identity_id"),
  certFingerprint: field.string("authenticator.fingerprint", { nullable: true }),
  certPem: field.string("authenticator.cert_pem", { nullable: true }),
  isIssuedByNetwork: field.boolean("authenticator.is_issued_by_network"),
  isExtendRequested: field.boolean("authenticator.is_extend_requested"),
  isKeyRollRequested: field.boolean("authenticator.is_key_roll_requested"),
  extendRequestedAt: field.datetime("authenticator.extend_requested_at", { nullable: true }),
  publicKeyPrint: field.string("authenticator.public_key_print", { nullable: true }),
  lastAuthResolvedToRoot: field.boolean("authenticator.last_auth_resolved_to_root"),
  lastExtendRolledKeys: field.boolean("authenticator.last_extend_rolled_keys"),
  updbUsername: field.string("authenticator.username", { nullable: true }),
};

export const ENROLLMENT_FIELDS: EntityFields = {
  ...base("enrollment"),
  method: field.string("enrollment.method"),
  identity: field.string("enrollment.identity_id", { nullable: true }),
  edgeRouter: field.string("enrollment.router_id", { nullable: true }),
  transitRouter: field.string(sql`CASE WHEN enrollment.method = 'trott' THEN enrollment.router_id END`, {
    nullable: true,
  }),
  caId: field.string("enrollment.ca_id", { nullable: true }),
};

export const AUTH_POLICY_FIELDS: EntityFields = {
  ...named("auth_policy"),
  "primary.cert.allowed": field.boolean("auth_policy.cert_allowed"),
  "primary.cert.allowExpiredCerts": field.boolean("auth_policy.cert_allow_expired"),
  "primary.updb.allowed": field.boolean("auth_policy.updb_allowed"),
  "primary.updb.minPasswordLength": field.number("auth_policy.updb_min_password_length"),
  "primary.updb.requireSpecialChar": field.boolean("auth_policy.updb_require_special"),
  "primary.updb.requireNumberChar": field.boolean("auth_policy.updb_require_number"),
  "primary.updb.requireMixedCase": field.boolean("auth_policy.updb_require_mixed_case"),
  "primary.updb.maxAttempts": field.number("auth_policy.updb_max_attempts"),
  "primary.updb.lockoutDurationMinutes": field.number("auth_policy.updb_lockout_minutes"),
  "primary.extJwt.allowed": field.boolean("auth_policy.ext_jwt_allowed"),
  "primary.extJwt.allowedSigners": field.array("auth_policy.ext_jwt_signers"),
  "secondary.requireTotp": field.boolean("auth_policy.require_totp"),
  "secondary.requireExtJwtSigner": field.string("auth_policy.require_ext_jwt_signer", { nullable: true }),
};

export const CA_FIELDS: EntityFields = {
  ...named("ca"),
  fingerprint: field.string("ca.fingerprint"),
  isVerified: field.boolean("ca.is_verified"),
  isAutoCaEnrollmentEnabled: field.boolean("ca.is_auto_ca_enrollment_enabled"),
  isOttCaEnrollmentEnabled: field.boolean("ca.is_ott_ca_enrollment_enabled"),
  isAuthEnabled: field.boolean("ca.is_auth_enabled"),
};

export const EXT_JWT_SIGNER_FIELDS: EntityFields = {
  ...named("ext_jwt_signer"),
  fingerprint: field.string("ext_jwt_signer.fingerprint", { nullable: true }),
  kid: field.string("ext_jwt_signer.kid", { nullable: true }),
  issuer: field.string("ext_jwt_signer.issuer"),
  certPem: field.string("ext_jwt_signer.cert_pem", { nullable: true }),
  commonName: field.string("ext_jwt_signer.common_name"),
  notAfter: field.datetime("ext_jwt_signer.not_after", { nullable: true }),
  notBefore: field.datetime("ext_jwt_signer.not_before", { nullable: true }),
  enabled: field.boolean("ext_jwt_signer.enabled"),
  claimsProperty: field.string("ext_jwt_signer.claims_property", { nullable: true }),
  useExternalId: field.boolean("ext_jwt_signer.use_external_id"),
  audience: field.string("ext_jwt_signer.audience", { nullable: true }),
  clientId: field.string("ext_jwt_signer.client_id", { nullable: true }),
  scopes: field.array("ext_jwt_signer.scopes"),
  targetToken: field.string("ext_jwt_signer.target_token"),
  enrollToCertEnabled: field.boolean("ext_jwt_signer.enroll_to_cert"),
  enrollToTokenEnabled: field.boolean("ext_jwt_signer.enroll_to_token"),
  enrollAuthPolicyId: field.string("ext_jwt_signer.enroll_auth_policy_id", { nullable: true }),
};

export const REVOCATION_FIELDS: EntityFields = {
  ...base("revocation"),
  type: field.string("revocation.type"),
  expiresAt: field.datetime("revocation.expires_at"),
};

export const API_SESSION_FIELDS: EntityFields = {
  ...base("api_session"),
  identity: field.string("api_session.identity_id"),
  authenticator: field.string("api_session.authenticator_id"),
  ipAddress: field.string("api_session.ip_address"),
  lastActivityAt: field.datetime("api_session.last_activity_at"),
  mfaComplete: field.boolean("api_session.is_mfa_complete"),
  mfaRequired: field.boolean("api_session.is_mfa_required"),
  improperClientCertChain: field.boolean("api_session.improper_client_cert_chain"),
};

export const SESSION_FIELDS: EntityFields = {
  ...base("session"),
  apiSession: field.string("session.api_session_id"),
  service: field.string("session.service_id"),
  type: field.string("session.type"),
};

const SESSION_CERTIFICATE_FIELDS: EntityFields = {
  ...base("api_session_certificate"),
  apiSession: field.string("api_session_certificate.api_session_id"),
  subject: field.string("api_session_certificate.subject"),
  fingerprint: field.string("api_session_certificate.fingerprint"),
};

/** Those of the fields, and the ones of every record. */
function shown(fields: EntityFields, ...names: string[]): EntityFields {
  const known = ["id", "createdAt", "updatedAt", "tags", ...names].map((name) => {
    const found = fields[name];
    if (found === undefined) throw new Error(`there is no field ${name} in the list`);
    return [name, found] as const;
  });
  return Object.fromEntries(known);
}

export const CLIENT_SERVICE_FIELDS = shown(SERVICE_FIELDS, "name", "terminatorStrategy", "roleAttributes", "configs");

/** `instanceId` is what the answer names `identity`. */
export const CLIENT_TERMINATOR_FIELDS = shown(TERMINATOR_FIELDS, "instanceId", "service", "service.name", "router");

export function clientRouterFields(onlineIds: readonly string[]): EntityFields {
  const names = ["name", "cost", "noTraversal", "disabled", "connected", "online"];
  return shown(routerFields(onlineIds), ...names);
}

export const CLIENT_SESSION_FIELDS = shown(SESSION_FIELDS, "apiSession", "service", "type");

export const CLIENT_SESSION_CERTIFICATE_FIELDS = shown(SESSION_CERTIFICATE_FIELDS, "subject", "fingerprint");

/** Of issuers, which are shown without a session. */
export const CLIENT_EXT_JWT_SIGNER_FIELDS = shown(
  EXT_JWT_SIGNER_FIELDS,
  ...["name", "audience", "clientId", "scopes", "targetToken"],
);

/** Of the caller's own, in both APIs. */
export const OWN_AUTHENTICATOR_FIELDS = shown(
  AUTHENTICATOR_FIELDS,
  ...["method", "identity", "certFingerprint", "certPem", "updbUsername", "isIssuedByNetwork"],
  ...["isExtendRequested", "isKeyRollRequested", "extendRequestedAt", "lastAuthResolvedToRoot", "lastExtendRolledKeys"],
);
