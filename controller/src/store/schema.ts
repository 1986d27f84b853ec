/**
 * The tables as Kysely sees them. The statements that make them are in `migrations/`.
 *
 * Ids are text and primary keys. Attribute and selector arrays are sorted and without duplicates; selectors are
 * stored without their prefix (`#a` is `a` in `…_attrs`, `#all` is `…_all`, `@id` is a row of the `…_ref` table).
 * Source: docs/protocol/store.md.
 */
import type { Permission, PrecedenceName } from "@sallyport/wire";
import type { ColumnType, Generated, GeneratedAlways, JSONColumnType } from "kysely";
import type { EntityTable, JsonColumn, JsonDefault, NamedTable, Time, TimeDefault, TimeOrNull } from "./columns.ts";
import type {
  ApiSessionCertificateTable,
  ApiSessionTable,
  FailedAttemptTable,
  OidcLoginTable,
  OidcSessionTable,
  RevocationTable,
  SessionTable,
  TokenKeyTable,
} from "./session-tables.ts";

export type { Tags } from "./columns.ts";
export type Semantic = "AllOf" | "AnyOf";
export type IdentityType = "Default" | "Device" | "Router" | "Service" | "User";
export type AuthenticatorMethod = "cert" | "updb";
export type EnrollmentMethod = "ott" | "ottca" | "updb" | "erott" | "trott";

export interface ExtJwtSignerTable extends NamedTable {
  issuer: string;
  audience: string | null;
  enabled: Generated<boolean>;
  cert_pem: string | null;
  fingerprint: string | null;
  common_name: Generated<string>;
  not_before: TimeOrNull;
  not_after: TimeOrNull;
  kid: string | null;
  jwks_endpoint: string | null;
  claims_property: string | null;
  use_external_id: Generated<boolean>;
  external_auth_url: string | null;
  client_id: string | null;
  scopes: Generated<string[]>;
  target_token: Generated<string>;
  enroll_to_cert: Generated<boolean>;
  enroll_to_token: Generated<boolean>;
  enroll_name_claim: string | null;
  enroll_attribute_claim: string | null;
  enroll_auth_policy_id: string | null;
}

export interface AuthPolicyTable extends NamedTable {
  cert_allowed: boolean;
  cert_allow_expired: boolean;
  updb_allowed: boolean;
  updb_min_password_length: Generated<number>;
  /** 0 = unlimited. */
  updb_max_attempts: Generated<number>;
  /** 0 = until an administrator enables the identity. */
  updb_lockout_minutes: Generated<number>;
  updb_require_mixed_case: Generated<boolean>;
  updb_require_number: Generated<boolean>;
  updb_require_special: Generated<boolean>;
  ext_jwt_allowed: boolean;
  ext_jwt_signers: Generated<string[]>;
  require_totp: Generated<boolean>;
  require_ext_jwt_signer: string | null;
}

export interface IdentityTable extends NamedTable {
  type_id: IdentityType;
  /** The one column that says who is an administrator; the table holds that the default administrator has it. */
  is_admin: Generated<boolean>;
  is_default_admin: Generated<boolean>;
  attrs: Generated<string[]>;
  external_id: string | null;
  auth_policy_id: Generated<string>;
  default_hosting_cost: Generated<number>;
  default_hosting_precedence: Generated<PrecedenceName>;
  service_hosting_costs: JsonDefault<Record<string, number>>;
  service_hosting_precedences: JsonDefault<Record<string, PrecedenceName>>;
  permissions: Generated<string[]>;
  app_data: JsonDefault<Record<string, unknown>>;
  disabled_at: TimeOrNull;
  disabled_until: TimeOrNull;
}

/** Kept by triggers on `identity`: which attributes are in use, and by which identities. Never written by the program. */
export interface IdentityAttrTable {
  attr: GeneratedAlways<string>;
  identity_id: GeneratedAlways<string>;
}

export interface IdentityInfoTable {
  identity_id: string;
  env_info: JsonDefault<Record<string, string>>;
  sdk_info: JsonDefault<Record<string, string>>;
}

export interface CaTable extends NamedTable {
  cert_pem: string;
  fingerprint: string;
  is_verified: Generated<boolean>;
  verification_token: string;
  is_auth_enabled: Generated<boolean>;
  is_auto_ca_enrollment_enabled: Generated<boolean>;
  is_ott_ca_enrollment_enabled: Generated<boolean>;
  identity_name_format: Generated<string>;
  identity_roles: Generated<string[]>;
  external_id_claim: ColumnType<Record<string, unknown> | null, string | null | undefined, string | null>;
  /** The token of its enrollments, as it was signed first. */
  jwt: string | null;
}

export interface AuthenticatorTable extends EntityTable {
  identity_id: string;
  method: AuthenticatorMethod;
  username: string | null;
  /** argon2id in PHC text form. */
  password_hash: string | null;
  cert_pem: string | null;
  /** SHA-1 of the DER, lower-case hex. */
  fingerprint: string | null;
  public_key_print: string | null;
  ca_id: string | null;
  is_issued_by_network: Generated<boolean>;
  unverified_cert_pem: string | null;
  unverified_fingerprint: string | null;
  /** Until then the unverified certificate counts beside the other one; null: not before it is confirmed. */
  unverified_counts_until: Date | null;
  is_extend_requested: Generated<boolean>;
  is_key_roll_requested: Generated<boolean>;
  extend_requested_at: TimeOrNull;
  last_extend_rolled_keys: Generated<boolean>;
  last_auth_resolved_to_root: Generated<boolean>;
}

export interface RouterInterface {
  name: string;
  hardwareAddress: string;
  mtu: number;
  index: number;
  /** Bits: 1 up, 2 broadcast, 4 loopback, 16 multicast, 32 running. */
  flags: number;
  addresses: string[];
}

export interface RouterReport {
  hostname?: string;
  version?: { version: string; revision: string; buildDate: string; os: string; arch: string };
}

export interface RouterTable extends NamedTable {
  kind: Generated<"edge" | "transit">;
  attrs: Generated<string[]>;
  cost: Generated<number>;
  no_traversal: Generated<boolean>;
  disabled: Generated<boolean>;
  is_tunneler_enabled: Generated<boolean>;
  is_verified: Generated<boolean>;
  fingerprint: string | null;
  cert_pem: string | null;
  unverified_fingerprint: string | null;
  unverified_cert_pem: string | null;
  app_data: JsonDefault<Record<string, unknown>>;
  ctrl_chan_listeners: JsonDefault<Record<string, string[]>>;
  /** What the router last said about itself: `hostname`, `version`. */
  report: JsonDefault<RouterReport>;
  /** The network interfaces that the router last reported. */
  interfaces: JsonDefault<RouterInterface[]>;
}

export interface EnrollmentTable extends EntityTable {
  method: EnrollmentMethod;
  identity_id: string | null;
  router_id: string | null;
  ca_id: string | null;
  username: string | null;
  token: string;
  jwt: string;
  /** Fingerprint of the certificate whose key signed the token. */
  signer: Generated<string>;
  issued_at: Time;
  expires_at: Time;
}

/** What configs of a type are for; never changed. */
export type ConfigTarget = "service" | "router" | "other";

export interface ConfigTypeTable extends NamedTable {
  target: Generated<ConfigTarget>;
  schema: ColumnType<Record<string, unknown> | null, string | null | undefined, string | null>;
}

export interface ConfigTable extends NamedTable {
  config_type_id: string;
  data: JsonColumn<Record<string, unknown>>;
}

export interface ServiceTable extends NamedTable {
  attrs: Generated<string[]>;
  encryption_required: boolean;
  terminator_strategy: Generated<string>;
  /** int8: `pg` reads it as text. 0 = no limit. */
  max_idle_time_millis: ColumnType<string, number | undefined, number>;
}

export interface ServiceConfigTable {
  service_id: string;
  config_type_id: string;
  config_id: string;
}

export interface RouterConfigTable {
  router_id: string;
  config_type_id: string;
  config_id: string;
}

export interface IdentityServiceConfigTable extends ServiceConfigTable {
  identity_id: string;
}

export interface PostureCheckTable extends NamedTable {
  type_id: string;
  attrs: Generated<string[]>;
  data: JsonDefault<Record<string, unknown>>;
  /** How often it was changed. */
  version: Generated<number>;
}

/** The TOTP enrollment of an identity: at most one each. */
export interface MfaTable {
  identity_id: string;
  id: string;
  is_verified: Generated<boolean>;
  /** The shared secret, sealed. */
  secret: Buffer;
  /** A JSON list of unused codes, sealed. */
  recovery_codes: Buffer;
  /** The newest TOTP step that was accepted, and for which API session. */
  last_step: number | null;
  last_step_session: string | null;
  /** The step whose code completed the enrollment, until a login has used it once more. */
  enrollment_step: number | null;
  created_at: TimeDefault;
  updated_at: TimeDefault;
}

export interface TerminatorTable extends EntityTable {
  service_id: string;
  router_id: string;
  binding: string;
  address: string;
  /** The terminator's instance name ("" = none), not an identity's id. */
  instance_id: Generated<string>;
  instance_secret: Buffer | null;
  /** The identity that hosts; "" = made by an administrator. */
  host_id: Generated<string>;
  source_ctrl: Generated<string>;
  cost: Generated<number>;
  precedence: Generated<PrecedenceName>;
  saved_precedence: PrecedenceName | null;
  /** Peer data by decimal key, base64 values. */
  peer_data: JsonDefault<Record<string, string>>;
}

export interface ServicePolicyTable extends NamedTable {
  type: Permission;
  semantic: Semantic;
  identity_all: Generated<boolean>;
  identity_attrs: Generated<string[]>;
  service_all: Generated<boolean>;
  service_attrs: Generated<string[]>;
  posture_check_all: Generated<boolean>;
  posture_check_attrs: Generated<string[]>;
}

/** What the devices of an identity reported last; see the migration `0011_posture_reports`. */
export interface PostureReportTable {
  identity_id: string;
  report: Record<string, unknown>;
  seen_at: Time;
}

export interface EdgeRouterPolicyTable extends NamedTable {
  semantic: Semantic;
  identity_all: Generated<boolean>;
  identity_attrs: Generated<string[]>;
  router_all: Generated<boolean>;
  router_attrs: Generated<string[]>;
}

export interface ServiceEdgeRouterPolicyTable extends NamedTable {
  semantic: Semantic;
  service_all: Generated<boolean>;
  service_attrs: Generated<string[]>;
  router_all: Generated<boolean>;
  router_attrs: Generated<string[]>;
}

/** A `@id` selector. Further generated columns of the table tie `entity_id` to the entity's table. */
export interface PolicyRefTable<Side extends string> {
  policy_id: string;
  side: Side;
  entity_id: string;
}

export interface Database extends EngineTables {
  ext_jwt_signer: ExtJwtSignerTable;
  auth_policy: AuthPolicyTable;
  identity: IdentityTable;
  identity_attr: IdentityAttrTable;
  identity_info: IdentityInfoTable;
  mfa: MfaTable;
  ca: CaTable;
  authenticator: AuthenticatorTable;
  router: RouterTable;
  enrollment: EnrollmentTable;
  config_type: ConfigTypeTable;
  config: ConfigTable;
  service: ServiceTable;
  service_config: ServiceConfigTable;
  router_config: RouterConfigTable;
  identity_service_config: IdentityServiceConfigTable;
  posture_check: PostureCheckTable;
  posture_report: PostureReportTable;
  terminator: TerminatorTable;
  service_policy: ServicePolicyTable;
  service_policy_ref: PolicyRefTable<"identity" | "service" | "posture_check">;
  edge_router_policy: EdgeRouterPolicyTable;
  edge_router_policy_ref: PolicyRefTable<"identity" | "router">;
  service_edge_router_policy: ServiceEdgeRouterPolicyTable;
  service_edge_router_policy_ref: PolicyRefTable<"service" | "router">;
  api_session: ApiSessionTable;
  api_session_certificate: ApiSessionCertificateTable;
  oidc_session: OidcSessionTable;
  oidc_login: OidcLoginTable;
  failed_attempt: FailedAttemptTable;
  session: SessionTable;
  revocation: RevocationTable;
  token_key: TokenKeyTable;
}

/** What happened to an entity: one row per change, written in the transaction of the change. */
export interface ChangeLogTable {
  /** Order of writing, not of committing: never use it to find "what is new" (see `change-log.ts`). */
  seq: Generated<string>;
  /** The writing transaction (`pg_current_xact_id()`), as text of an unsigned 64-bit number. */
  xid: ColumnType<string, never, never>;
  at: ColumnType<Date, never, never>;
  kind: string;
  /** The public id of the entity. */
  key: string;
  op: "create" | "update" | "delete";
  /** What readers need of the state before the change, for example old role attributes or selectors. */
  before: JSONColumnType<Record<string, unknown> | null, string | null, string | null>;
}

/** Secrets at rest: sealed boxes of `secrets.ts`, the name bound as their context. */
export interface SecretTable {
  name: string;
  box: Buffer;
  updated_at: ColumnType<Date, Date | undefined, Date>;
}

/** Small facts about the network that belong to no entity. */
export interface SettingTable {
  name: string;
  value: ColumnType<unknown, string, string>;
}

/** The tables of the store itself, which belong to no entity. */
export interface EngineTables {
  change_log: ChangeLogTable;
  secret: SecretTable;
  setting: SettingTable;
}
