import {
  API_ERRORS,
  ApiError,
  apiError,
  type authPolicyCreate,
  type authPolicyPatch,
  fieldCause,
  fieldError,
  unhandledCause,
} from "@sallyport/api";
import type { Selectable, Updateable } from "kysely";
import type { z } from "zod";
import { appendChange } from "../../store/changes/change-log.ts";
import type { AuthPolicyBefore } from "../../store/changes/logged-write.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { AuthPolicyTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { deleteEntity, getEntity, json, keepEntity, lockEntity, requireName, updateEntity } from "../entity.ts";
import { transact } from "../store-errors.ts";

/** How identities of a policy may authenticate. */
export type AuthPolicyRow = Selectable<AuthPolicyTable>;

type Primary = z.output<typeof authPolicyPatch>["primary"];
type Secondary = z.output<typeof authPolicyPatch>["secondary"];

const MIN_PASSWORD_LENGTH = 5;
const MAX_PASSWORD_LENGTH = 100;
const MAX_INT4 = 2_147_483_647;

/** Authentication policies. Every identity has one; the one with the id `default` cannot be deleted. */
export class AuthPolicies {
  readonly #ctx: ModelContext;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  async create(policy: z.output<typeof authPolicyCreate>): Promise<string> {
    requireName(policy.name);
    const { primary, secondary } = policy;
    const { cert, updb, extJwt } = primary;
    const id = randomEntityId();
    await transact(this.#ctx.store, async (trx) => {
      const columns = await this.#columns(trx, primary, secondary);
      await trx
        .insertInto("auth_policy")
        .values({
          ...columns,
          id,
          name: policy.name,
          cert_allowed: cert.allowed,
          cert_allow_expired: cert.allowExpiredCerts,
          updb_allowed: updb.allowed,
          ext_jwt_allowed: extJwt.allowed,
          tags: json(policy.tags),
        })
        .execute();
      await appendChange(trx, { kind: "auth_policy", key: id, op: "create" });
    });
    return id;
  }

  /** PUT: every field; no required signer unless one is named. */
  replace(id: string, policy: z.output<typeof authPolicyCreate>): Promise<void> {
    const { secondary } = policy;
    return this.update(id, {
      ...policy,
      secondary: { ...secondary, requireExtJwtSigner: secondary.requireExtJwtSigner ?? "" },
    });
  }

  /** Applies the leaves that are present; a required signer of `""` is taken away. */
  async update(id: string, change: z.output<typeof authPolicyPatch>): Promise<void> {
    if (change.name !== undefined) requireName(change.name);
    await transact(this.#ctx.store, async (trx) => {
      const columns = await this.#columns(trx, change.primary, change.secondary);
      const old = await lockEntity(trx, "auth_policy", id);
      await updateEntity(trx, "auth_policy", id, {
        ...columns,
        name: change.name,
        tags: json(change.tags),
        updated_at: this.#ctx.now(),
      });
      const isTotpNoLongerRequired = old.require_totp && columns.require_totp === false;
      const before = { isTotpNoLongerRequired } satisfies AuthPolicyBefore;
      await appendChange(trx, { kind: "auth_policy", key: id, op: "update", before });
    });
  }

  /** @throws ApiError 409 while identities have it; 400 for the default one */
  async delete(id: string): Promise<void> {
    await transact(this.#ctx.store, async (trx) => {
      await lockEntity(trx, "auth_policy", id);
      const users = await trx.selectFrom("identity").select("id").where("auth_policy_id", "=", id).limit(10).execute();
      if (users.length > 0) {
        const ids = users.map((user) => user.id).join(", ");
        const cause = fieldCause("authPolicyId", `auth policy ${id} is referenced by the identities ${ids}`, id);
        throw apiError("CAN_NOT_DELETE_REFERENCED_ENTITY", cause);
      }
      const signers = await trx
        .selectFrom("ext_jwt_signer")
        .select("id")
        .where("enroll_auth_policy_id", "=", id)
        .limit(10)
        .execute();
      if (signers.length > 0) {
        const ids = signers.map((signer) => signer.id).join(", ");
        const reason = `auth policy ${id} is referenced by the external JWT signers ${ids}`;
        throw apiError("CAN_NOT_DELETE_REFERENCED_ENTITY", fieldCause("enrollAuthPolicyId", reason, id));
      }
      if (id === "default") {
        const reason = "the default auth policy can not be deleted: it applies where no other is named";
        throw apiError("ENTITY_CAN_NOT_BE_DELETED", unhandledCause(reason));
      }
      await deleteEntity(trx, "auth_policy", id);
    });
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<AuthPolicyRow> {
    return getEntity(db, "auth_policy", id);
  }

  /** The leaves that are given, as columns. The signers that they name are held until the transaction ends. */
  async #columns(trx: Db, primary: Primary, secondary: Secondary): Promise<Updateable<AuthPolicyTable>> {
    const { cert, updb, extJwt } = primary ?? {};
    const signers = extJwt?.allowedSigners;
    const required = secondary?.requireExtJwtSigner;
    for (const [index, signer] of (signers ?? []).entries()) {
      await requireSigner(trx, signer, `primary.extJwt.allowedExtJwtSigners[${index}]`);
    }
    if (required !== undefined && required !== "") {
      await requireSigner(trx, required, "secondary.requiredExtJwtSigner");
    }
    return {
      cert_allowed: cert?.allowed,
      cert_allow_expired: cert?.allowExpiredCerts,
      updb_allowed: updb?.allowed,
      updb_min_password_length: minimumLength(updb?.minPasswordLength),
      updb_max_attempts: count("maxAttempts", updb?.maxAttempts),
      updb_lockout_minutes: count("lockoutDurationMinutes", updb?.lockoutDurationMinutes),
      updb_require_mixed_case: updb?.requireMixedCase,
      updb_require_number: updb?.requireNumberChar,
      updb_require_special: updb?.requireSpecialChar,
      ext_jwt_allowed: extJwt?.allowed,
      ext_jwt_signers: signers === undefined ? undefined : [...new Set(signers)],
      require_totp: secondary?.requireTotp,
      require_ext_jwt_signer: required === undefined ? undefined : required || null,
    };
  }
}

/** @throws ApiError 404 naming the field */
async function requireSigner(trx: Db, id: string, field: string): Promise<void> {
  if ((await keepEntity(trx, "ext_jwt_signer", id, ["id"])) !== undefined) return;
  const { status, message } = API_ERRORS.NOT_FOUND;
  throw new ApiError(status, "NOT_FOUND", message, fieldCause(field, `externalJwtSigner with id ${id} not found`, id));
}

function minimumLength(length: number | undefined): number | undefined {
  if (length === undefined) return undefined;
  if (length > MAX_PASSWORD_LENGTH) {
    throw fieldError(
      "primary.updb.minPasswordLength",
      `minPasswordLength may be at most ${MAX_PASSWORD_LENGTH}: no password is longer`,
      length,
    );
  }
  return Math.max(MIN_PASSWORD_LENGTH, length);
}

/** Below 0 means 0: without limit. */
function count(name: string, value: number | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (value > MAX_INT4) throw fieldError(`primary.updb.${name}`, `${name} may be at most ${MAX_INT4}`, value);
  return Math.max(0, value);
}
