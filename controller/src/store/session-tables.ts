/** Sessions, and the tokens that prove them, as Kysely sees their tables. */
import type { Permission } from "@sallyport/wire";
import type { Generated } from "kysely";
import type { EntityTable, JsonColumn, Time, TimeDefault, TimeOrNull } from "./columns.ts";

/** How an API session came to be: by `authenticate`, or by OIDC. */
export type ApiSessionKind = "legacy" | "oidc";

export interface ApiSessionTable extends EntityTable {
  token: string;
  identity_id: string;
  authenticator_id: string;
  ip_address: string;
  config_types: Generated<string[]>;
  is_mfa_required: Generated<boolean>;
  is_mfa_complete: Generated<boolean>;
  /** When TOTP was last passed in this session. */
  mfa_passed_at: TimeOrNull;
  /** When the client last reported that its device woke up, and was unlocked. */
  woken_at: TimeOrNull;
  unlocked_at: TimeOrNull;
  improper_client_cert_chain: Generated<boolean>;
  cert_fingerprints: Generated<string[]>;
  last_activity_at: TimeDefault;
  kind: Generated<ApiSessionKind>;
  /** When a session of kind `oidc` ends; null for one that ends when it is idle. */
  expires_at: TimeOrNull;
  /** When the newest access token of a session of kind `oidc` ends; null before its first token: the login is not complete. */
  access_until: TimeOrNull;
}

export interface ApiSessionCertificateTable extends EntityTable {
  api_session_id: string;
  subject: string;
  fingerprint: string;
  cert_pem: string;
  valid_from: Time;
  valid_to: Time;
}

export interface SessionTable extends EntityTable {
  token: string;
  api_session_id: string;
  identity_id: string;
  service_id: string;
  type: Permission;
}

/** What a login by OIDC knows besides its API session: the family of its refresh tokens, and what its tokens say. */
export interface OidcSessionTable {
  api_session_id: string;
  client_id: string;
  scopes: string[];
  amr: string[];
  auth_time: Time;
  /** Of the certificate that logged in. */
  login_fingerprint: string | null;
  /** Of the newest certificate that the network issued for this session. */
  session_fingerprint: string | null;
  /** Its tokens count only together with one of its certificates. */
  is_bound: boolean;
  /** What its tokens say of the client: `sdkInfo`, `envInfo`, `remoteAddress`. */
  shown: JsonColumn<OidcShown>;
  refresh_jti: string | null;
  previous_jti: string | null;
  rotated_at: TimeOrNull;
  refreshes: Generated<number>;
}

export interface OidcShown {
  readonly sdkInfo: object | null;
  readonly envInfo: object | null;
  readonly remoteAddress: string;
}

/** A login in progress. */
export interface OidcLoginTable {
  id: string;
  client_id: string;
  redirect_uri: string;
  state: string;
  nonce: string;
  code_challenge: string;
  scopes: string[];
  config_types: string[];
  remote_address: string;
  csr_pem: string | null;
  /** Set once the first factor is proved. */
  api_session_id: string | null;
  /** SHA-256 of the secret of the page that goes on with it. */
  page_hash: Buffer | null;
  /** SHA-256 of the code. */
  code_hash: Buffer | null;
  code_used_at: TimeOrNull;
  expires_at: Time;
}

/** Failed attempts to prove something, for all controllers: see `model/identity/failed-attempts.ts`. */
export interface FailedAttemptTable {
  key: string;
  count: number;
  until: Time;
  expires_at: Time;
}

export type RevocationType = "JTI" | "API_SESSION" | "IDENTITY";

/** A token, or the tokens of an API session or identity, that verifiers refuse; `id` is what is revoked. */
export interface RevocationTable extends EntityTable {
  type: RevocationType;
  /** Of a session: its identity. */
  identity_id: string | null;
  /** Of an identity: its tokens made until then. */
  issued_before: TimeOrNull;
  /** From then on the tokens have ended anyway. */
  expires_at: Time;
}

/** A key that signs tokens, or has signed some that still count. */
export interface TokenKeyTable {
  /** SHA-1 of the certificate, lower-case hex. */
  kid: string;
  cert_pem: string;
  /** The private key (PEM), sealed with the context `token-key:<kid>`. */
  key_box: Buffer;
  algorithm: string;
  created_at: TimeDefault;
  signs_from: Time;
  /** Null while it may still sign. */
  ends_at: TimeOrNull;
}
