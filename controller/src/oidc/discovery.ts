/** What clients learn of the provider before they use it (OpenID Connect Discovery 1.0, section 3). */
import type { PublishedKey } from "../auth/tokens/token-keys.ts";
import { SCOPES } from "./parameters.ts";

export const GRANTS = {
  code: "authorization_code",
  refresh: "refresh_token",
  exchange: "urn:ietf:params:oauth:grant-type:token-exchange",
} as const;

export const PATHS = {
  discovery: "/oidc/.well-known/openid-configuration",
  keys: "/oidc/keys",
  authorize: "/oidc/authorize",
  callback: "/oidc/authorize/callback",
  username: "/oidc/login/username",
  password: "/oidc/login/password",
  certificate: "/oidc/login/cert",
  externalToken: "/oidc/login/ext-jwt",
  authQueries: "/oidc/login/auth-queries",
  totp: "/oidc/login/totp",
  totpEnroll: "/oidc/login/totp/enroll",
  totpEnrollVerify: "/oidc/login/totp/enroll/verify",
  token: "/oidc/oauth/token",
  revoke: "/oidc/revoke",
  /** The console's name for it. */
  revokeOfConsole: "/oidc/oauth/revoke",
  endSession: "/oidc/end_session",
  loggedOut: "/oidc/logged-out",
  userinfo: "/oidc/userinfo",
  healthz: "/oidc/healthz",
  ready: "/oidc/ready",
} as const;

/** Claims of an id token that a client may expect. */
const CLAIMS = ["sub", "aud", "exp", "iat", "iss", "auth_time", "nonce", "amr", "azp", "at_hash", "c_hash", "name"];

/** Lists what works, and nothing else. */
export function discoveryDocument(issuer: string, keys: readonly PublishedKey[]): Readonly<Record<string, unknown>> {
  const at = (path: string) => issuer + path.slice("/oidc".length);
  return {
    issuer,
    authorization_endpoint: at(PATHS.authorize),
    token_endpoint: at(PATHS.token),
    userinfo_endpoint: at(PATHS.userinfo),
    revocation_endpoint: at(PATHS.revoke),
    end_session_endpoint: at(PATHS.endSession),
    jwks_uri: at(PATHS.keys),
    scopes_supported: SCOPES,
    response_types_supported: ["code"],
    response_modes_supported: ["query"],
    grant_types_supported: Object.values(GRANTS),
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: [...new Set(keys.map(({ algorithm }) => algorithm))],
    token_endpoint_auth_methods_supported: ["none", "client_secret_basic"],
    revocation_endpoint_auth_methods_supported: ["none", "client_secret_basic"],
    code_challenge_methods_supported: ["S256"],
    claims_supported: CLAIMS,
    ui_locales_supported: ["en"],
    request_parameter_supported: false,
    request_uri_parameter_supported: false,
    openziti_endpoints: {
      password: at(PATHS.password),
      cert: at(PATHS.certificate),
      ext_jwt: at(PATHS.externalToken),
      totp: at(PATHS.totp),
      totp_enroll: at(PATHS.totpEnroll),
      totp_enroll_verify: at(PATHS.totpEnrollVerify),
      auth_queries: at(PATHS.authQueries),
    },
  };
}

/** The keys that tokens are checked with (RFC 7517, section 5). */
export function keySet(keys: readonly PublishedKey[]): { readonly keys: readonly object[] } {
  return {
    keys: keys.map(({ jwk }) => jwk),
  };
}
