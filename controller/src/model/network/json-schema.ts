/** JSON schemas of config types, and configs checked against them (docs/protocol/configs.md). */

import { isIPv4, isIPv6 } from "node:net";
import { fieldError } from "@sallyport/api";
import { BoundedMap, errorText } from "@sallyport/async";
import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";

const MAX_COMPILED = 200;

/** The formats that are checked; what a tunneler makes of a name with `*` or `/` no format says. */
const FORMATS = { ipv4: isIPv4, ipv6: isIPv6 };

/**
 * Compiled schemas, the least recently used dropped first. A schema comes from an administrator, so nothing is fetched
 * (no remote references).
 */
export class SchemaCache {
  readonly #compiled = new BoundedMap<string, ValidateFunction>(MAX_COMPILED);

  /** @throws ApiError 400 on field `schema` when it is no JSON schema with the root type `object` */
  requireSchema(schema: Record<string, unknown>): void {
    if (schema.type !== "object") {
      throw fieldError("schema", "schema root must have type 'object'", JSON.stringify(schema.type ?? null));
    }
    try {
      this.#compile(schema);
    } catch (error) {
      throw fieldError("schema", `invalid schema: ${errorText(error)}`, schema);
    }
  }

  /** @throws ApiError 400 naming the first violation */
  check(schema: Record<string, unknown>, data: Record<string, unknown>): void {
    const validate = this.#compile(schema);
    if (validate(data)) return;
    const first = validate.errors?.[0];
    const field = first === undefined ? "data" : fieldOf(first);
    throw fieldError(
      field,
      `${field} is invalid: ${first?.message ?? "does not match the schema"}`,
      valueAt(data, first),
    );
  }

  #compile(schema: Record<string, unknown>): ValidateFunction {
    const key = JSON.stringify(schema);
    const known = this.#compiled.touch(key);
    if (known !== undefined) return known;
    // One instance per schema: two types may use the same `$id`.
    const ajv = new Ajv({ strict: false, allErrors: false, formats: FORMATS, logger: false });
    const { $schema: _, ...plain } = schema;
    const validate = ajv.compile(plain);
    this.#compiled.set(key, validate);
    return validate;
  }
}

function fieldOf(error: ErrorObject): string {
  const path = error.instancePath.split("/").slice(1);
  const missing: unknown = error.params.missingProperty ?? error.params.additionalProperty;
  return [...path, ...(typeof missing === "string" ? [missing] : [])].join(".") || "(root)";
}

function valueAt(data: Record<string, unknown>, error: ErrorObject | undefined): unknown {
  let value: unknown = data;
  for (const key of (error?.instancePath ?? "").split("/").slice(1)) {
    const name = key.replaceAll("~1", "/").replaceAll("~0", "~");
    value = typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
  }
  return value;
}
