/** Turns what PostgreSQL's constraints refuse into the errors of the API (docs/api.md, "Errors"). */
import { type ApiError, apiError, fieldCause, fieldError, notFound, unhandledCause } from "@sallyport/api";
import type { Transaction } from "kysely";
import { DatabaseUnavailableError, StatementTimeoutError } from "../store/outage.ts";
import type { Database } from "../store/schema.ts";
import type { ModelStore } from "./context.ts";
import { ENTITY_NAMES } from "./entity.ts";

interface PgError {
  readonly code: string;
  readonly message: string;
  readonly constraint?: string;
  readonly detail?: string;
  readonly table?: string;
}

const UNIQUE_VIOLATION = "23505";
const FOREIGN_KEY_VIOLATION = "23503";
const PROGRAM_LIMIT_EXCEEDED = "54000";

/** Unique columns by constraint: the API's field, and the collection named in the reason. */
const UNIQUE_FIELDS: Readonly<Record<string, { field: string; store: string }>> = {
  identity_name_key: { field: "name", store: "identities" },
  identity_external_id_key: { field: "externalId", store: "identities" },
  authenticator_username_key: { field: "username", store: "authenticators" },
  authenticator_fingerprint_key: { field: "fingerprint", store: "authenticators" },
  ext_jwt_signer_issuer_key: { field: "issuer", store: "externalJwtSigners" },
  ext_jwt_signer_kid_key: { field: "kid", store: "externalJwtSigners" },
  ext_jwt_signer_fingerprint_key: { field: "certPem", store: "externalJwtSigners" },
  router_fingerprint_key: { field: "fingerprint", store: "routers" },
  router_pkey: { field: "id", store: "routers" },
  ca_fingerprint_key: { field: "certPem", store: "cas" },
};

/**
 * Runs a write and translates its constraint violations: a taken unique value to 400 on that field, an unknown reference to 404, the deletion of an entity that
 * others refer to, to 409. Other errors pass unchanged.
 */
export async function translated<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw (isPgError(error) ? translation(error) : undefined) ?? error;
  }
}

/** Runs a write in a transaction, {@link translated}. */
export function transact<T>(store: ModelStore, work: (trx: Transaction<Database>) => Promise<T>): Promise<T> {
  return translated(() => store.transaction(work));
}

function translation(error: PgError): ApiError | undefined {
  const constraint = error.constraint ?? "";
  if (error.code === UNIQUE_VIOLATION) {
    const value = /\)=\((.*)\) already exists/.exec(error.detail ?? "")?.[1] ?? "";
    if (constraint === "authenticator_identity_id_method_key") return apiError("MAX_AUTHENTICATOR_METHODS_REACHED");
    if (constraint === "enrollment_identity_id_method_key") {
      const method = value.split(", ").at(-1) ?? "";
      return apiError("ENROLLMENT_EXISTS", fieldCause("method", "enrollment of same method exists", method));
    }
    const known = UNIQUE_FIELDS[constraint];
    if (known !== undefined) {
      const reason = `duplicate value '${value}' in unique index on ${known.store} store`;
      return fieldError(known.field, reason, value);
    }
    if (constraint.endsWith("_name_key")) return fieldError("name", "name must be unique", value);
  }
  if (error.code === FOREIGN_KEY_VIOLATION) {
    const missing = /=\((.*)\) is not present in table "(\w+)"/.exec(error.detail ?? "");
    if (missing !== null) {
      return notFound(nameOf(missing[2] ?? ""), (missing[1] ?? "").split(", ")[0] ?? "");
    }
    const used = /=\((.*)\) is still referenced from table "(\w+)"/.exec(error.detail ?? "");
    if (used !== null) {
      const cause = unhandledCause(`${used[1]} is referenced by: ${nameOf(used[2] ?? "")}`);
      return apiError("CAN_NOT_DELETE_REFERENCED_ENTITY", cause);
    }
  }
  return undefined;
}

const TRY_LATER = { headers: { "retry-after": "2" } };

/**
 * The error of a request while the database is away, or was too slow for one statement: 503 `TIMEOUT`, to be tried again. The store itself has
 * logged an outage, once. A value that is larger than the database can take is 400, where nothing named the field before.
 */
export function databaseFailure(error: unknown): { shown: ApiError; isReported: boolean } | undefined {
  if (error instanceof DatabaseUnavailableError) {
    const cause = unhandledCause("the controller's database cannot be used at the moment, try again later");
    return { shown: apiError("TIMEOUT", cause, TRY_LATER), isReported: true };
  }
  if (error instanceof StatementTimeoutError) {
    const cause = unhandledCause("the controller's database took too long");
    return { shown: apiError("TIMEOUT", cause, TRY_LATER), isReported: false };
  }
  if (isPgError(error) && error.code === PROGRAM_LIMIT_EXCEEDED) {
    const cause = unhandledCause("a text of the request is too long for the controller's database: send a shorter one");
    return { shown: apiError("COULD_NOT_VALIDATE", cause, { detail: error.message }), isReported: false };
  }
  return undefined;
}

/** How error texts name what a table holds. */
function nameOf(table: string): string {
  return new Map<string, string>(Object.entries(ENTITY_NAMES)).get(table) ?? table;
}

function isPgError(error: unknown): error is PgError {
  return error instanceof Error && "code" in error && typeof error.code === "string" && /^\w{5}$/.test(error.code);
}
