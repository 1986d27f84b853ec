import { ApiError, fieldError } from "@sallyport/api";
import { sql } from "kysely";
import type { ModelContext } from "../../model/context.ts";
import {
  type Counted,
  countFailure,
  forgetFailures,
  REMEMBERED_MS,
  waitSql,
} from "../../model/identity/failed-attempts.ts";
import { isDisabled } from "../../model/identity/identities.ts";
import type { Model } from "../../model/model.ts";
import { loggedWrite } from "../../store/changes/logged-write.ts";
import { Statement } from "../../store/driver/statement.ts";
import type { Guesses } from "../limits/guess-limits.ts";
import { checkPassword, hashPassword, isOutdated, type ProvedPassword } from "../password.ts";
import { findPrincipal, type Principal, type Proof, refused } from "./proof.ts";

interface NamedAuthenticator {
  readonly id: string | null;
  readonly identity_id: string | null;
  readonly password_hash: string | null;
  /** It has failed in a row. */
  readonly has_failed: boolean;
  /** Milliseconds until the limits of guesses allow another attempt. */
  readonly wait: number | null;
}

/** One row, also when there is no such user. */
const BY_USERNAME = new Statement<NamedAuthenticator>(`
  SELECT a.id, a.identity_id, a.password_hash, ${waitSql("$2", "$3")} AS wait,
    EXISTS (SELECT FROM failed_attempt WHERE key = 'password ' || a.id) AS has_failed
  FROM (SELECT) AS always LEFT JOIN authenticator a ON a.username = $1`);

/** Authentication by user name and password (docs/protocol/authentication.md, "Password"). */
export class PasswordLogin {
  readonly #ctx: ModelContext;
  readonly #model: Model;

  constructor(ctx: ModelContext, model: Model) {
    this.#ctx = ctx;
    this.#model = model;
  }

  /** @throws ApiError 401; 400 for a field that is missing; 429 after too many failures, or when too many passwords are being checked */
  async prove(username: string | undefined, password: string | undefined, guesses: Guesses): Promise<Proof> {
    if (username === undefined) throw fieldError("username", "username is required");
    if (password === undefined) throw fieldError("password", "password is required");
    const { db } = this.#ctx.store;
    const { rates } = guesses;
    const found = await BY_USERNAME.first(db, [
      username,
      rates.map(({ key }) => key),
      rates.map(({ roomMs }) => roomMs),
    ]);
    guesses.requireFew(found?.wait ?? 0);
    const row = knownUser(found);
    const isRight = await checkPassword(row?.password_hash ?? undefined, password);
    const principal = row && (await findPrincipal(db, "id", row.identity_id));
    const reason = refusal({ row, principal, isRight, at: this.#ctx.now() });
    if (reason !== undefined || row === undefined || principal === undefined) {
      const ofAuthenticator = row && principal && !isRight ? { id: row.id, principal } : undefined;
      await this.#countFailure(guesses, ofAuthenticator);
      throw refused(reason ?? "unknown user name");
    }
    if (row.has_failed) await forgetFailures(db, keyOf(row.id));
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
   * The current password of an authenticator, before its holder changes it; undefined for a wrong one, which counts towards limits and lockout.
   * @throws ApiError 429
   */
  async confirm(
    authenticator: { readonly id: string; readonly identity_id: string; readonly password_hash: string | null },
    password: string,
    guesses: Guesses,
  ): Promise<ProvedPassword | undefined> {
    const { db } = this.#ctx.store;
    const { id } = authenticator;
    const isRight = await checkPassword(authenticator.password_hash ?? undefined, password);
    if (isRight) {
      await forgetFailures(db, keyOf(id));
      return proved(authenticator.password_hash ?? "", password);
    }
    const principal = await findPrincipal(db, "id", authenticator.identity_id);
    await this.#countFailure(guesses, principal && { id, principal });
    return undefined;
  }

  /** One statement, whether there is such a user or not. */
  async #countFailure(
    { rates }: Guesses,
    authenticator: { readonly id: string; readonly principal: Principal } | undefined,
  ): Promise<void> {
    const { db } = this.#ctx.store;
    if (authenticator === undefined) return void (await countFailure(db, rates));
    const { identity, policy } = authenticator.principal;
    const key = keyOf(authenticator.id);
    const inARow: Counted = { key, pauseMs: 0, keptMs: REMEMBERED_MS };
    const failures = (await countFailure(db, [...rates, inARow])).get(key) ?? 0;
    if (policy.updb_max_attempts === 0 || failures <= policy.updb_max_attempts) return;
    await forgetFailures(db, key);
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

const keyOf = (authenticatorId: string) => `password ${authenticatorId}`;

interface KnownUser {
  readonly id: string;
  readonly identity_id: string;
  readonly password_hash: string | null;
  readonly has_failed: boolean;
}

function knownUser(row: NamedAuthenticator | undefined): KnownUser | undefined {
  if (row === undefined || row.id === null || row.identity_id === null) return undefined;
  return { ...row, id: row.id, identity_id: row.identity_id };
}

/** Why the login is refused, for the log. */
function refusal(checked: {
  readonly row: KnownUser | undefined;
  readonly principal: Principal | undefined;
  readonly isRight: boolean;
  readonly at: Date;
}): string | undefined {
  const { row, principal, isRight, at } = checked;
  if (row === undefined) return "unknown user name";
  if (principal === undefined) return `identity ${row.identity_id} is gone`;
  if (!isRight) return `wrong password for identity ${row.identity_id}`;
  if (isDisabled(principal.identity, at)) return `identity ${row.identity_id} is disabled`;
  if (!principal.policy.updb_allowed) return `auth policy ${principal.policy.id} does not allow passwords`;
  return undefined;
}
