import { randomInt, timingSafeEqual } from "node:crypto";
import { ApiError, apiError, notFound } from "@sallyport/api";
import { type Selectable, sql } from "kysely";
import { appendChange } from "../../store/changes/change-log.ts";
import type { MfaBefore } from "../../store/changes/logged-write.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { MfaTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { found, keepEntity } from "../entity.ts";
import { transact } from "../store-errors.ts";
import { CodeAttempts } from "./code-attempts.ts";
import { matchTotp, newTotpSecret, provisioningUrl } from "./one-time-codes.ts";

type MfaRow = Selectable<MfaTable>;

const WRONG_CODE = "MFA_INVALID_TOKEN";
const RECOVERY_CODES = 20;
const RECOVERY_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const RECOVERY_LENGTH = 6;

/** A TOTP enrollment as its owner is shown it. */
export interface MfaStatus {
  readonly id: string;
  readonly isVerified: boolean;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** Only while it is not verified. */
  readonly pending?: { readonly provisioningUrl: string; readonly recoveryCodes: readonly string[] };
}

/** Which codes an operation takes, and the API session that presents one. */
export interface CodeUse {
  readonly apiSessionId: string;
  /** A recovery code counts too, and is used up. */
  readonly allowRecovery: boolean;
  /** It completes a login. */
  readonly isLogin?: boolean;
}

/**
 * TOTP enrollments of identities (docs/protocol/authentication.md "One-time codes"). Secret and recovery codes lie sealed. The code of a step counts in the
 * API session that used it first, and opens no other one; but for the code that completed the enrollment, with which clients log in right afterwards. Wrong
 * codes are answered slower and slower (`CodeAttempts`).
 */
export class Mfa {
  readonly #ctx: ModelContext;
  readonly #attempts = new CodeAttempts();

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  async status(identity: { readonly id: string; readonly name: string }): Promise<MfaStatus | undefined> {
    const row = await this.#find(this.#ctx.store.db, identity.id);
    if (row === undefined) return undefined;
    if (row.is_verified) return statusOf(row);
    const url = provisioningUrl(this.#secretOf(row), this.#ctx.settings.totpIssuer, identity.name);
    return { ...statusOf(row), pending: { provisioningUrl: url, recoveryCodes: this.#codesOf(row) } };
  }

  /** Does the identity have to pass TOTP? Those of `ids` that do. */
  async verifiedAmong(db: Db, ids: readonly string[]): Promise<ReadonlySet<string>> {
    if (ids.length === 0) return new Set();
    const { rows } = await sql<{ identity_id: string }>`
      SELECT identity_id FROM mfa WHERE is_verified AND identity_id = ANY (${ids}::text[])`.execute(db);
    return new Set(rows.map((row) => row.identity_id));
  }

  async isVerified(identityId: string): Promise<boolean> {
    return (await this.verifiedAmong(this.#ctx.store.db, [identityId])).has(identityId);
  }

  /**
   * Begins an enrollment: a secret and recovery codes, which count once a code was verified.
   * @throws ApiError 409 `MFA_EXISTS`, also while one is not verified yet
   */
  async start(identityId: string): Promise<string> {
    const id = randomEntityId();
    await transact(this.#ctx.store, async (trx) => {
      const row = await trx
        .insertInto("mfa")
        .values({
          id,
          identity_id: identityId,
          secret: this.#ctx.secrets.encrypt(newTotpSecret(), secretContext(identityId)),
          recovery_codes: this.#sealed(identityId, newRecoveryCodes()),
        })
        .onConflict((conflict) => conflict.column("identity_id").doNothing())
        .returning("id")
        .executeTakeFirst();
      if (row === undefined) throw apiError("MFA_EXISTS");
      await appendChange(trx, { kind: "mfa", key: id, op: "create" });
    });
    return id;
  }

  /**
   * Completes an enrollment by a first code. From now on every session of the identity needs one; this session has just given its own.
   * @param enrollmentId the one that the caller was shown, if it says so: another one is not its own
   * @throws ApiError 404 `MFA_ENROLLMENT_NOT_STARTED` without a pending one, 400 `MFA_INVALID_TOKEN`, 429 after too many wrong codes
   */
  async verify(identityId: string, apiSessionId: string, code: string, enrollmentId?: string): Promise<void> {
    await this.#changed(identityId, async (trx) => {
      const row = await this.#find(trx, identityId, "for update");
      const isShown = enrollmentId === undefined || row?.id === enrollmentId;
      if (row === undefined || row.is_verified || !isShown) throw apiError("MFA_ENROLLMENT_NOT_STARTED");
      const step = await this.#use(trx, row, code, { apiSessionId, allowRecovery: false });
      await trx
        .updateTable("mfa")
        .set({ is_verified: true, enrollment_step: step ?? null, updated_at: this.#ctx.now() })
        .where("identity_id", "=", identityId)
        .execute();
      // Present sessions have to pass TOTP, too.
      await sql`UPDATE api_session SET is_mfa_required = true
        WHERE identity_id = ${identityId} AND NOT is_mfa_required`.execute(trx);
      await appendChange(
        trx,
        { kind: "mfa", key: row.id, op: "update" },
        { kind: "identity", key: identityId, op: "update" },
      );
    });
  }

  /**
   * Uses a code to complete the login of an API session; the code that completed the enrollment counts for one login more.
   * @throws ApiError 409 `MFA_NOT_ENROLLED`, 400 `MFA_INVALID_TOKEN`, 429 after too many wrong codes
   */
  async pass(identityId: string, code: string, use: CodeUse): Promise<void> {
    await this.#changed(identityId, async (trx) => {
      const row = await this.#find(trx, identityId, "for update");
      if (row?.is_verified !== true) throw apiError("MFA_NOT_ENROLLED");
      await this.#use(trx, row, code, { ...use, isLogin: true });
    });
  }

  /** The recovery codes that are left, for a TOTP code. @throws ApiError 404 unless verified, 400 `MFA_INVALID_TOKEN`, 429 */
  async recoveryCodes(
    identityId: string,
    apiSessionId: string,
    code: string,
  ): Promise<MfaStatus & { codes: string[] }> {
    return this.#changed(identityId, async (trx) => {
      const row = await this.#verified(trx, identityId);
      await this.#use(trx, row, code, { apiSessionId, allowRecovery: false });
      return { ...statusOf(row), codes: this.#codesOf(row) };
    });
  }

  /** New recovery codes in place of all old ones. @throws ApiError 404 unless verified, 400 `MFA_INVALID_TOKEN`, 429 */
  async renewRecoveryCodes(identityId: string, apiSessionId: string, code: string): Promise<void> {
    await this.#changed(identityId, async (trx) => {
      const row = await this.#verified(trx, identityId);
      await this.#use(trx, row, code, { apiSessionId, allowRecovery: true });
      await this.#saveCodes(trx, row, newRecoveryCodes());
    });
  }

  /**
   * Ends the caller's enrollment; a pending one needs no code.
   * @throws ApiError 404 when there is none, 400 `MFA_INVALID_TOKEN`, 429
   */
  async disable(identityId: string, apiSessionId: string, code: string): Promise<void> {
    await this.#changed(identityId, async (trx) => {
      const row = await this.#find(trx, identityId, "for update");
      if (row === undefined) throw notFound("mfa", identityId, "identity");
      if (row.is_verified) await this.#use(trx, row, code, { apiSessionId, allowRecovery: true });
      await removeMfa(trx, identityId);
    });
  }

  /** Ends an identity's enrollment without a code; nothing happens when there is none. @throws ApiError 404 for an unknown identity */
  async remove(identityId: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      found(await keepEntity(trx, "identity", identityId, ["id"]), "identity", identityId);
      await removeMfa(trx, identityId);
      await this.#attempts.succeeded(trx, identityId);
    });
  }

  /**
   * A caller that has to pause learns it before a connection waits for the row.
   * @param work checks the code before it writes anything: after a wrong code the transaction is committed, with the failure as all that it has written
   */
  async #changed<T>(identityId: string, work: (trx: Db) => Promise<T>): Promise<T> {
    const { store, now } = this.#ctx;
    await this.#attempts.require(store.db, identityId, now());
    const done = await store.transaction(async (trx): Promise<{ result: T } | { error: ApiError }> => {
      try {
        return { result: await work(trx) };
      } catch (error) {
        if (!(error instanceof ApiError && error.code === WRONG_CODE)) throw error;
        await this.#attempts.failed(trx, identityId, now());
        return { error };
      }
    });
    if ("error" in done) throw done.error;
    return done.result;
  }

  async #find(db: Db, identityId: string, lock?: "for update"): Promise<MfaRow | undefined> {
    const query = db.selectFrom("mfa").selectAll().where("identity_id", "=", identityId);
    return (lock === undefined ? query : query.forUpdate()).executeTakeFirst();
  }

  async #verified(trx: Db, identityId: string): Promise<MfaRow> {
    const row = await this.#find(trx, identityId, "for update");
    if (row?.is_verified !== true) throw notFound("mfa", identityId, "identity");
    return row;
  }

  /** The row is locked: of two uses of one code the second sees what the first left. Answers the step of a one-time code. */
  async #use(trx: Db, row: MfaRow, code: string, use: CodeUse): Promise<number | undefined> {
    const now = this.#ctx.now();
    const failures = await this.#attempts.require(trx, row.identity_id, now);
    const step = matchTotp(this.#secretOf(row), code, now);
    if (step !== undefined) {
      const isRepeated = row.last_step !== null && step <= row.last_step && row.last_step_session !== use.apiSessionId;
      const isOfEnrollment = use.isLogin === true && step === row.enrollment_step && step === row.last_step;
      if (isRepeated && !isOfEnrollment) {
        throw wrongCode(`identity ${row.identity_id} repeats a code that another session used`);
      }
      await trx
        .updateTable("mfa")
        .set({
          last_step: Math.max(step, row.last_step ?? 0),
          last_step_session: use.apiSessionId,
          enrollment_step: isRepeated ? null : undefined,
        })
        .where("identity_id", "=", row.identity_id)
        .execute();
      if (failures > 0) await this.#attempts.succeeded(trx, row.identity_id);
      return step;
    }
    const codes = use.allowRecovery ? this.#codesOf(row) : [];
    const left = codes.filter((each) => !isSame(each, code));
    if (left.length === codes.length) throw wrongCode(`identity ${row.identity_id} gave a wrong code`);
    await this.#saveCodes(trx, row, left);
    if (failures > 0) await this.#attempts.succeeded(trx, row.identity_id);
    return undefined;
  }

  async #saveCodes(trx: Db, row: MfaRow, codes: readonly string[]): Promise<void> {
    await trx
      .updateTable("mfa")
      .set({ recovery_codes: this.#sealed(row.identity_id, codes), updated_at: this.#ctx.now() })
      .where("id", "=", row.id)
      .execute();
    await appendChange(trx, { kind: "mfa", key: row.id, op: "update" });
  }

  #sealed(identityId: string, codes: readonly string[]): Buffer {
    return this.#ctx.secrets.encrypt(JSON.stringify(codes), codesContext(identityId));
  }

  #secretOf(row: MfaRow): string {
    return this.#ctx.secrets.decryptText(row.secret, secretContext(row.identity_id));
  }

  #codesOf(row: MfaRow): string[] {
    return JSON.parse(this.#ctx.secrets.decryptText(row.recovery_codes, codesContext(row.identity_id))) as string[];
  }
}

function statusOf(row: MfaRow): MfaStatus {
  return { id: row.id, isVerified: row.is_verified, createdAt: row.created_at, updatedAt: row.updated_at };
}

/** Ends an identity's enrollment, if there is one, and what its sessions owe to it. */
export async function removeMfa(trx: Db, identityId: string): Promise<boolean> {
  const gone = await trx.deleteFrom("mfa").where("identity_id", "=", identityId).returning("id").executeTakeFirst();
  if (gone === undefined) return false;
  await sql`UPDATE api_session a SET is_mfa_complete = false, mfa_passed_at = NULL, is_mfa_required = p.require_totp
    FROM identity i JOIN auth_policy p ON p.id = i.auth_policy_id
    WHERE a.identity_id = ${identityId} AND i.id = a.identity_id`.execute(trx);
  await appendChange(
    trx,
    { kind: "mfa", key: gone.id, op: "delete", before: { identityId } satisfies MfaBefore },
    { kind: "identity", key: identityId, op: "update" },
  );
  return true;
}

function newRecoveryCodes(): string[] {
  const codes = new Set<string>();
  while (codes.size < RECOVERY_CODES) {
    codes.add(
      Array.from({ length: RECOVERY_LENGTH }, () => RECOVERY_ALPHABET[randomInt(RECOVERY_ALPHABET.length)]).join(""),
    );
  }
  return [...codes];
}

function isSame(code: string, given: string): boolean {
  const [a, b] = [Buffer.from(code), Buffer.from(given)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function wrongCode(detail: string): Error {
  return apiError(WRONG_CODE, undefined, { detail });
}

const secretContext = (identityId: string) => `totp:${identityId}`;
const codesContext = (identityId: string) => `recovery-codes:${identityId}`;
