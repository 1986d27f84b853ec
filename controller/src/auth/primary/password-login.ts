import { ApiError, fieldError } from "@sallyport/api";
import { BoundedMap } from "@sallyport/async";
import { sql } from "kysely";
import type { ModelContext } from "../../model/context.ts";
import type { Model } from "../../model/model.ts";
import { Statement } from "../../store/driver/statement.ts";
import { loggedWrite } from "../../store/logged-write.ts";
import { checkPassword, hashPassword, isOutdated, type ProvedPassword } from "../password.ts";
import { findPrincipal, type Principal, type Proof, refused, requireEnabled } from "./proof.ts";

/** Authenticators whose failures are counted; beyond that the longest untouched counter is forgotten. */
const MAX_COUNTED = 100_000;

const BY_USERNAME = new Statement<{ id: string; identity_id: string; password_hash: string | null }>(
  "SELECT id, identity_id, password_hash FROM authenticator WHERE username = $1",
);

/** Authentication by user name and password (docs/protocol/authentication.md, "Password"). */
export class PasswordLogin {
  readonly #ctx: ModelContext;
  readonly #model: Model;
  /** Consecutive failed logins by authenticator. */
  readonly #failures = new BoundedMap<string, number>(MAX_COUNTED);

  constructor(ctx: ModelContext, model: Model) {
    this.#ctx = ctx;
    this.#model = model;
  }

  /** @throws ApiError 401; 400 for a field that is missing; 429 when too many passwords are being checked */
  async prove(username: string | undefined, password: string | undefined): Promise<Proof> {
    if (username === undefined) throw fieldError("username", "username is required");
    if (password === undefined) throw fieldError("password", "password is required");
    const { db } = this.#ctx.store;
    const row = await BY_USERNAME.first(db, [username]);
    const isRight = await checkPassword(row?.password_hash ?? undefined, password);
    if (row === undefined) throw refused("unknown user name");
    const principal = await findPrincipal(db, "id", row.identity_id);
    if (principal === undefined) throw refused(`identity ${row.identity_id} is gone`);
    if (!isRight) {
      await this.#countFailure(row.id, principal);
      throw refused(`wrong password for identity ${row.identity_id}`);
    }
    requireEnabled(principal, this.#ctx.now());
    if (!principal.policy.updb_allowed) throw refused(`auth policy ${principal.policy.id} does not allow passwords`);
    this.#failures.delete(row.id);
    const hash = await this.#renewHash(row.id, row.password_hash ?? "", password);
    return {
      principal,
      authenticatorId: row.id,
      password: proved(hash, password),
      certFingerprints: [],
      improperClientCertChain: false,
      isExtendRequested: false,
    };
  }

  /**
   * The current password of an authenticator, before its holder changes it; undefined for a wrong one, which counts towards the lockout.
   * @throws ApiError 429
   */
  async confirm(
    authenticator: { readonly id: string; readonly identity_id: string; readonly password_hash: string | null },
    password: string,
  ): Promise<ProvedPassword | undefined> {
    const isRight = await checkPassword(authenticator.password_hash ?? undefined, password);
    if (isRight) {
      this.#failures.delete(authenticator.id);
      return proved(authenticator.password_hash ?? "", password);
    }
    const principal = await findPrincipal(this.#ctx.store.db, "id", authenticator.identity_id);
    if (principal !== undefined) await this.#countFailure(authenticator.id, principal);
    return undefined;
  }

  async #countFailure(authenticatorId: string, { identity, policy }: Principal): Promise<void> {
    const failures = (this.#failures.get(authenticatorId) ?? 0) + 1;
    this.#failures.set(authenticatorId, failures);
    if (policy.updb_max_attempts === 0 || failures <= policy.updb_max_attempts) return;
    this.#failures.delete(authenticatorId);
    this.#ctx.log.warn({ identityId: identity.id, failures }, "too many failed logins: identity disabled");
    await this.#model.identities.lockOut(identity.id, policy.updb_lockout_minutes);
  }

  /**
   * Replaces a hash with outdated parameters, unless too many passwords are being hashed. A password that another request has set meanwhile stays.
   * @returns the hash that the password has now
   */
  async #renewHash(authenticatorId: string, hash: string, password: string): Promise<string> {
    if (!isOutdated(hash)) return hash;
    const renewed = await hashPassword(password).catch((error: unknown) => {
      if (error instanceof ApiError) return undefined;
      throw error;
    });
    if (renewed === undefined) return hash;
    const written = await loggedWrite(
      this.#ctx.store.db,
      sql`WITH renewed AS (UPDATE authenticator SET password_hash = ${renewed}
        WHERE id = ${authenticatorId} AND password_hash = ${hash} RETURNING id)`,
      { changes: [{ kind: "authenticator", op: "update", of: "renewed" }], answer: sql`SELECT id FROM renewed` },
    );
    return written.length === 1 ? renewed : hash;
  }
}

function proved(hash: string, password: string): ProvedPassword {
  return { hash, matches: (other) => checkPassword(other, password) };
}
