/** What a creation has where the user says nothing and the API has no default of its own. A test holds the fields against the contract. */
import type { Field, Kind } from "./kind.ts";

/** By kind and field; `*` is every kind that has the field. */
const STANDARDS: Readonly<Record<string, unknown>> = {
  "identity.type": "Default",
  "service.encryptionRequired": true,
  "external-jwt-signer.enabled": true,
  "service-policy.semantic": "AnyOf",
  "edge-router-policy.semantic": "AnyOf",
  "service-edge-router-policy.semantic": "AnyOf",
  "posture-check.semantic": "AllOf",
  "auth-policy.primary.updb.minPasswordLength": 5,
};

export const STANDARD_FIELDS: readonly string[] = Object.keys(STANDARDS);

/** The value of a required field that the user did not give; undefined where only the user can know it. */
export function standardOf(kind: Kind, field: Field): unknown {
  const own = STANDARDS[`${kind.name}.${field.name}`];
  if (own !== undefined) return own;
  if (field.isList === true) return field.only === undefined ? [] : undefined;
  if (field.type === "boolean") return false;
  return field.type === "integer" ? 0 : undefined;
}
