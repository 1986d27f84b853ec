/** Columns of the tables of `get`: which fields of a kind are worth a look. A test holds them against the contract. */
import type { Kind } from "./kind.ts";

interface Columns {
  readonly always: readonly string[];
  /** With `-o wide` these follow. */
  readonly wide: readonly string[];
}

const ROUTER: Columns = {
  always: ["name", "isOnline", "isVerified", "cost", "disabled"],
  wide: ["id", "noTraversal", "fingerprint", "createdAt"],
};

const COLUMNS: Readonly<Record<string, Columns>> = {
  "api-session": { always: ["id", "identity", "ipAddress", "lastActivityAt"], wide: ["isMfaComplete", "createdAt"] },
  "auth-policy": {
    always: ["name", "primary.cert.allowed", "primary.extJwt.allowed", "primary.updb.allowed", "secondary.requireTotp"],
    wide: ["id", "secondary.requireExtJwtSigner", "createdAt"],
  },
  authenticator: { always: ["id", "identity", "method", "username"], wide: ["fingerprint", "createdAt"] },
  ca: {
    always: ["name", "isVerified", "isAuthEnabled", "isAutoCaEnrollmentEnabled", "isOttCaEnrollmentEnabled"],
    wide: ["id", "identityRoles", "fingerprint"],
  },
  circuit: { always: ["id", "service", "clientId", "path.nodes"], wide: ["terminator", "path.links", "createdAt"] },
  config: { always: ["name", "configType"], wide: ["id", "data", "updatedAt"] },
  "config-type": { always: ["name", "target"], wide: ["id", "createdAt"] },
  controller: { always: ["name", "isOnline", "lastJoinedAt"], wide: ["id", "ctrlAddress", "fingerprint"] },
  "edge-router": {
    always: ["name", "isOnline", "isVerified", "roleAttributes", "hostname"],
    wide: ["id", "version", "syncStatus", "cost", "disabled", "isTunnelerEnabled"],
  },
  "edge-router-policy": {
    always: ["name", "semantic", "edgeRouterRoles", "identityRoles"],
    wide: ["id", "isSystem", "createdAt"],
  },
  enrollment: { always: ["id", "method", "identity", "edgeRouter", "expiresAt"], wide: ["transitRouter", "username"] },
  "external-jwt-signer": {
    always: ["name", "issuer", "audience", "enabled"],
    wide: ["id", "jwksEndpoint", "claimsProperty", "useExternalId", "notAfter"],
  },
  identity: {
    always: ["name", "type", "isAdmin", "edgeRouterConnectionStatus", "roleAttributes"],
    wide: ["id", "authPolicy", "disabled", "hasApiSession", "externalId", "sdkInfo.version", "createdAt"],
  },
  link: {
    always: ["id", "sourceRouter", "destRouter", "protocol", "state", "cost"],
    wide: ["staticCost", "down", "sourceLatency", "destLatency", "iteration"],
  },
  "network-jwt": { always: ["name"], wide: ["token"] },
  "posture-check": { always: ["name", "typeId", "roleAttributes"], wide: ["id", "version", "updatedAt"] },
  "posture-check-type": { always: ["name", "version"], wide: ["id"] },
  revocation: { always: ["id", "type", "expiresAt"], wide: ["createdAt"] },
  router: ROUTER,
  "transit-router": ROUTER,
  service: {
    always: ["name", "encryptionRequired", "terminatorStrategy", "roleAttributes"],
    wide: ["id", "configs", "maxIdleTimeMillis", "createdAt"],
  },
  "service-edge-router-policy": {
    always: ["name", "semantic", "serviceRoles", "edgeRouterRoles"],
    wide: ["id", "createdAt"],
  },
  "service-policy": {
    always: ["name", "type", "semantic", "identityRoles", "serviceRoles", "postureCheckRoles"],
    wide: ["id", "createdAt"],
  },
  session: { always: ["id", "type", "service", "apiSession"], wide: ["identityId", "edgeRouters", "createdAt"] },
  terminator: {
    always: ["id", "service", "router", "binding", "address"],
    wide: ["identity", "cost", "dynamicCost", "precedence", "createdAt"],
  },
};

/** Fields in the table of a kind, as dotted paths. */
export function columnsOf(kind: Kind, isWide: boolean): readonly string[] {
  const own = COLUMNS[kind.name];
  if (own !== undefined) return isWide ? [...own.always, ...own.wide] : own.always;
  const names = [...(kind.hasName ? ["name"] : []), ...(kind.hasId ? ["id"] : [])];
  return isWide ? [...names, "createdAt"] : names;
}
