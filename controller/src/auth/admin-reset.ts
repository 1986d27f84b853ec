import { sql } from "kysely";
import type { Db, ModelStore } from "../model/context.ts";
import { json } from "../model/entity.ts";
import { removeMfa } from "../model/identity/mfa.ts";
import { endApiSessions } from "../model/session/session-removal.ts";
import { translated } from "../model/store-errors.ts";
import { appendChange } from "../store/changes/change-log.ts";
import { randomEntityId } from "../store/ids.ts";
import { hashPassword, passwordProblem } from "./password.ts";

/** An administrator that cannot be reset, or a password that cannot be set. */
export class AdminResetError extends Error {
  override name = "AdminResetError";
}

export interface AdminReset {
  /** Id, name or user name; the default administrator when not given. */
  readonly identity?: string | undefined;
  /** A new user name; the one it has, or `admin`, when not given. */
  readonly username?: string | undefined;
  readonly password: string;
  /** Assign an auth policy of its own that only requires the password. */
  readonly hasOwnPolicy: boolean;
}

export interface AdminResetResult {
  readonly name: string;
  readonly username: string;
  readonly wasDisabled: boolean;
  readonly hadMfa: boolean;
  readonly endedSessions: number;
  /** What would still keep the administrator out. */
  readonly obstacles: readonly string[];
}

interface Administrator {
  id: string;
  name: string;
  attrs: string[];
  is_admin: boolean;
  disabled_at: Date | null;
  auth_policy_id: string;
  authenticator_id: string | null;
  username: string | null;
}

/**
 * Lets a lost or locked-out administrator in again: a new password, enabled, without MFA enrollment, all its API sessions ended. Failed attempts, of all clients, count no more.
 * @throws AdminResetError, ApiError for a taken user name
 */
export async function resetAdministrator(
  store: Pick<ModelStore, "transaction">,
  reset: AdminReset,
): Promise<AdminResetResult> {
  const passwordHash = await hashPassword(reset.password);
  return translated(() =>
    store.transaction(async (trx) => {
      const admin = await findAdministrator(trx, reset.identity);
      const policyId = reset.hasOwnPolicy ? await ownPolicy(trx, admin) : admin.auth_policy_id;
      const policy = await trx
        .selectFrom("auth_policy")
        .selectAll()
        .where("id", "=", policyId)
        .executeTakeFirstOrThrow();
      const problem = passwordProblem(reset.password, {
        minLength: policy.updb_min_password_length,
        requireMixedCase: policy.updb_require_mixed_case,
        requireNumber: policy.updb_require_number,
        requireSpecial: policy.updb_require_special,
      });
      if (problem !== undefined) throw new AdminResetError(`auth policy ${policy.name}: ${problem}`);
      const username = reset.username ?? admin.username ?? "admin";
      await setPassword(trx, admin, username, passwordHash);
      const hadMfa = await removeMfa(trx, admin.id);
      await trx
        .updateTable("identity")
        .set({ disabled_at: null, disabled_until: null, auth_policy_id: policyId, updated_at: sql`now()` })
        .where("id", "=", admin.id)
        .execute();
      const ended = await endApiSessions(trx, sql`a.identity_id = ${admin.id}`);
      // Those of the administrator alone cannot be told: the keys of guesses name addresses, and are hashed.
      await trx.deleteFrom("failed_attempt").execute();
      await appendChange(trx, { kind: "identity", key: admin.id, op: "update", before: { attrs: admin.attrs } });
      return {
        name: admin.name,
        username,
        wasDisabled: admin.disabled_at !== null,
        hadMfa,
        endedSessions: ended.length,
        obstacles: [
          !policy.updb_allowed && "does not allow passwords",
          policy.require_ext_jwt_signer !== null &&
            `asks for a token of the external signer ${policy.require_ext_jwt_signer}`,
        ].flatMap((obstacle) => (obstacle ? [`auth policy ${policy.name} ${obstacle}`] : [])),
      };
    }),
  );
}

async function findAdministrator(trx: Db, wanted: string | undefined): Promise<Administrator> {
  const { rows } = await sql<Administrator>`
    SELECT i.id, i.name, i.attrs, i.is_admin, i.disabled_at, i.auth_policy_id,
      a.id AS authenticator_id, a.username
    FROM identity i LEFT JOIN authenticator a ON a.identity_id = i.id AND a.method = 'updb'
    WHERE ${wanted === undefined ? sql`i.is_default_admin` : sql`${wanted} IN (i.id, i.name, a.username)`}
    ORDER BY i.id FOR UPDATE OF i`.execute(trx);
  const [row, another] = rows;
  if (row === undefined) {
    throw new AdminResetError(
      wanted === undefined
        ? "the network has no default administrator: name one with --identity"
        : `no identity has the id, name or user name ${wanted}`,
    );
  }
  if (another !== undefined) throw new AdminResetError(`several identities are called ${wanted}: use the id of one`);
  if (!row.is_admin) throw new AdminResetError(`identity ${row.name} is no administrator`);
  return row;
}

async function setPassword(trx: Db, admin: Administrator, username: string, passwordHash: string): Promise<void> {
  if (admin.authenticator_id !== null) {
    await trx
      .updateTable("authenticator")
      .set({ username, password_hash: passwordHash, updated_at: sql`now()` })
      .where("id", "=", admin.authenticator_id)
      .execute();
    await appendChange(trx, { kind: "authenticator", key: admin.authenticator_id, op: "update" });
    return;
  }
  const id = randomEntityId();
  await trx
    .insertInto("authenticator")
    .values({ id, identity_id: admin.id, method: "updb", username, password_hash: passwordHash })
    .execute();
  await appendChange(trx, { kind: "authenticator", key: id, op: "create" });
}

async function ownPolicy(trx: Db, admin: Administrator): Promise<string> {
  const id = randomEntityId();
  await trx
    .insertInto("auth_policy")
    .values({
      id,
      name: `administrator ${admin.name} since ${new Date().toISOString()}`,
      cert_allowed: true,
      cert_allow_expired: false,
      updb_allowed: true,
      ext_jwt_allowed: false,
      tags: json({}),
    })
    .execute();
  await appendChange(trx, { kind: "auth_policy", key: id, op: "create" });
  return id;
}
