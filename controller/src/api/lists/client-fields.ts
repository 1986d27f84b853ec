/**
 * The fields that filters and sorts of the Client API may name: only those that its answers show. A filter on a hidden field would reveal its value step
 * by step.
 */
import type { EntityFields } from "../../store/filter/filter-sql.ts";
import {
  AUTHENTICATOR_FIELDS,
  EXT_JWT_SIGNER_FIELDS,
  routerFields,
  SERVICE_FIELDS,
  SESSION_CERTIFICATE_FIELDS,
  SESSION_FIELDS,
  TERMINATOR_FIELDS,
} from "./fields.ts";

function only(fields: EntityFields, names: readonly string[]): EntityFields {
  return Object.fromEntries(names.map((name) => [name, known(fields, name)]));
}

function known(fields: EntityFields, name: string) {
  const found = fields[name];
  if (found === undefined) throw new Error(`there is no field ${name} in the list`);
  return found;
}

const BASE = ["id", "createdAt", "updatedAt", "tags"] as const;

export const CLIENT_SERVICE_FIELDS = only(SERVICE_FIELDS, [
  ...BASE,
  ...["name", "terminatorStrategy", "roleAttributes", "configs"],
]);

/** `instanceId` is what the answer names `identity`. */
export const CLIENT_TERMINATOR_FIELDS = only(TERMINATOR_FIELDS, [
  ...BASE,
  ...["instanceId", "service", "service.name", "router"],
]);

export function clientRouterFields(onlineIds: readonly string[]): EntityFields {
  return only(routerFields(onlineIds), [
    ...BASE,
    ...["name", "cost", "noTraversal", "disabled", "connected", "online"],
  ]);
}

export const CLIENT_SESSION_FIELDS = only(SESSION_FIELDS, [...BASE, "apiSession", "service", "type"]);

export const CLIENT_SESSION_CERTIFICATE_FIELDS = only(SESSION_CERTIFICATE_FIELDS, [...BASE, "subject", "fingerprint"]);

/** Of issuers, which are shown without a session. */
export const CLIENT_EXT_JWT_SIGNER_FIELDS = only(EXT_JWT_SIGNER_FIELDS, [
  ...BASE,
  ...["name", "audience", "clientId", "scopes", "targetToken"],
]);

/** Of the caller's own, over both APIs. */
export const OWN_AUTHENTICATOR_FIELDS = only(AUTHENTICATOR_FIELDS, [
  ...BASE,
  ...["method", "identity", "certFingerprint", "certPem", "updbUsername", "isIssuedByNetwork"],
  ...["isExtendRequested", "isKeyRollRequested", "extendRequestedAt", "lastAuthResolvedToRoot", "lastExtendRolledKeys"],
]);
