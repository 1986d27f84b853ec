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
import { appendChange } from "../../store/change-log.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { AuthPolicyBefore } from "../../store/logged-changes.ts";
import type { AuthPolicyTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { found, json, requireName } from "../entity.ts";
import { translated } from "../store-errors.ts";

/** How identities of a policy may authenticate. */
export type AuthPolicyRow = Selectable<AuthPolicyTable>;

type Primary = z.output<typeof authPolicyPatch>["primary"];
type Secondary = z.output<typeof authPolicyPatch>["secondary"];

/** No password may be shorter, and none can be longer. */
const SHORTEST_PASSWORD = 5;
const LONGEST_PASSWORD = 100;
const MOST = 2_147_483_647;

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
    await translated(() =>
      this.#ctx.store.transaction(async (trx) => {
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
      }),
    );
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
    await translated(() =>
      this.#ctx.store.transaction(async (trx) => {
        const columns = await this.#columns(trx, change.primary, change.secondary);
        const old = await trx
          .selectFrom("auth_policy")
          .select("require_totp")
          .where("id", "=", id)
          .forUpdate()
          .executeTakeFirst();
        const isTotpNoLongerRequired = old?.require_totp === true && columns.require_totp === false;
        const { numUpdatedRows } = await trx
          .updateTable("auth_policy")
          .set({ ...columns, name: change.name, tags: json(change.tags), updated_at: this.#ctx.now() })
          .where("id", "=", id)
          .executeTakeFirst();
        found(numUpdatedRows > 0n ? true : undefined, "auth_policy", id);
        await appendChange(trx, {
          kind: "auth_policy",
          key: id,
          op: "update",
          before: { isTotpNoLongerRequired } satisfies AuthPolicyBefore,
        });
      }),
    );
  }

  /** @throws ApiError 409 while identities have it; 400 for the default one */
  async delete(id: string): Promise<void> {
    await translated(() =>
      this.#ctx.store.transaction(async (trx) => {
        const row = await trx
          .selectFrom("auth_policy")
          .select("id")
          .where("id", "=", id)
          .forUpdate()
          .executeTakeFirst();
        found(row, "auth_policy", id);
        const users = await trx
          .selectFrom("identity")
          .select("id")
          .where("auth_policy_id", "=", id)
          .limit(10)
          .execute();
        if (users.length > 0) {
          const ids = users.map((user) => user.id).join(", ");
          const cause = fieldCause("authPolicyId", `auth policy ${id} is referenced by the identities ${ids}`, id);
          throw apiError("CAN_NOT_DELETE_REFERENCED_ENTITY", cause);
        }
        if (id === "default") {
          const cause = unhandledCause(
            "the default auth policy can not be deleted: it applies where no other is named",
          );
          throw apiError("ENTITY_CAN_NOT_BE_DELETED", cause);
        }
        await trx.deleteFrom("auth_policy").where("id", "=", id).execute();
        await appendChange(trx, { kind: "auth_policy", key: id, op: "delete" });
      }),
    );
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<AuthPolicyRow> {
    const row = await db.selectFrom("auth_policy").selectAll().where("id", "=", id).executeTakeFirst();
    return found(row, "auth_policy", id);
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
  const row = await trx.selectFrom("ext_jwt_signer").select("id").where("id", "=", id).forKeyShare().executeTakeFirst();
  if (row !== undefined) return;
  const { status, message } = API_ERRORS.NOT_FOUND;
  throw new ApiError(status, "NOT_FOUND", message, fieldCause(field, `externalJwtSigner with id ${id} not found`, id));
}

function minimumLength(length: number | undefined): number | undefined {
  if (length === undefined) return undefined;
  if (length > LONGEST_PASSWORD) {
    throw fieldError(
      "primary.updb.minPasswordLength",
      `minPasswordLength may be at most ${LONGEST_PASSWORD}: no password is longer`,
      length,
    );
  }
  return Math.max(SHORTEST_PASSWORD, length);
}

/** Below 0 means 0, that is without limit. */
function count(name: string, value: number | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (value > MOST) throw fieldError(`primary.updb.${name}`, `${name} may be at most ${MOST}`, value);
  return Math.max(0, value);
}
