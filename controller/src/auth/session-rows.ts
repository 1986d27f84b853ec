import { isDeepStrictEqual } from "node:util";
import { BoundedMap } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { ModelStore } from "../model/context.ts";
import type { ChangeRow } from "../store/changes/change-log-reads.ts";
import type { MfaBefore } from "../store/changes/logged-write.ts";

/** The session and the identity whose changes a kept row depends on. */
export interface OwnedSession {
  readonly id: string;
  readonly token: string;
  readonly identity_id: string;
  readonly last_activity_at: Date;
}

interface SessionRowsParts<T> {
  readonly changes: ModelStore["changes"];
  load(token: string): Promise<T | undefined>;
  /** In one statement. */
  loadAll(tokens: readonly string[]): Promise<readonly T[]>;
  readonly log: Logger;
}

interface Kept<T> {
  readonly row: T;
  readonly until: number;
}

/** About 1.5 KB each. */
export const MAX_ROWS = 25_000;
/**
 * Limits the effect of a writer that forgets to append to the change log: a row that was not compared with the database for so long is read again. Rows that
 * were read together are not read together again.
 */
const LIFE_MS = 600_000;
const SPREAD = 0.1;
/** How often kept rows are compared with the database, and how many at once: those that were read or compared longest ago. */
const COMPARE_MS = 60_000;
const MAX_COMPARED = 1_000;
/** While there are more: 25,000 take their turn in less than the life of a row. */
const COMPARE_MORE_MS = 15_000;

/**
 * The rows that requests read first, by token, kept in memory until the change log says that they may differ. Every look-up waits until it knows all earlier
 * commits, so an ended session or a disabled identity counts from the next request on.
 */
export class SessionRows<T extends OwnedSession> {
  readonly #parts: SessionRowsParts<T>;
  readonly #rows = new BoundedMap<string, Kept<T>>(MAX_ROWS, (token, { row }) => this.#unlink(token, row));
  /** Tokens by session, and by identity. */
  readonly #bySession = new Map<string, string>();
  readonly #byIdentity = new Map<string, Set<string>>();
  /** Grows with every change that could concern a row that is being read. */
  #version = 0;
  #isFollowing = false;
  #compareAt = performance.now() + COMPARE_MS;

  constructor(parts: SessionRowsParts<T>) {
    this.#parts = parts;
  }

  async find(token: string): Promise<T | undefined> {
    this.#follow();
    await this.#parts.changes.noticed();
    if (performance.now() >= this.#compareAt) void this.#compare();
    const kept = this.#rows.get(token);
    if (kept !== undefined && performance.now() < kept.until) return kept.row;
    const version = this.#version;
    const row = await this.#parts.load(token);
    this.forget(token);
    if (row !== undefined && version === this.#version) this.#keep(token, row);
    return row;
  }

  /** Lets the next look-up read the row again. */
  forget(token: string): void {
    const kept = this.#rows.get(token);
    if (kept === undefined) return;
    this.#rows.delete(token);
    this.#unlink(token, kept.row);
  }

  #unlink(token: string, { id, identity_id }: T): void {
    this.#bySession.delete(id);
    const others = this.#byIdentity.get(identity_id);
    others?.delete(token);
    if (others?.size === 0) this.#byIdentity.delete(identity_id);
  }

  #keep(token: string, row: T): void {
    const life = LIFE_MS * (1 - SPREAD + 2 * SPREAD * Math.random());
    this.#rows.set(token, { row, until: performance.now() + life });
    this.#bySession.set(row.id, token);
    const tokens = this.#byIdentity.get(row.identity_id) ?? new Set();
    this.#byIdentity.set(row.identity_id, tokens.add(token));
  }

  /**
   * Finds rows that differ from the database although no change was logged: some writer forgets to append to the log. Those that do not differ are as good as
   * read, so that in the long run no request reads one.
   */
  async #compare(): Promise<void> {
    const { changes, loadAll, log } = this.#parts;
    const kept = [...this.#rows.entries().take(MAX_COMPARED)];
    this.#compareAt = performance.now() + (kept.length < MAX_COMPARED ? COMPARE_MS : COMPARE_MORE_MS);
    try {
      const rows = await loadAll(kept.map(([token]) => token));
      // What differs because it was changed meanwhile is forgotten by then.
      await changes.noticed();
      const stored = new Map(rows.map((row) => [row.token, row]));
      for (const [token, one] of kept) {
        if (this.#rows.get(token) !== one) continue;
        if (isSame(one.row, stored.get(token))) {
          this.#keep(token, one.row);
          continue;
        }
        this.forget(token);
        const { id: apiSessionId, identity_id: identityId } = one.row;
        const message =
          "a session in memory differed from the database although no change of it was logged: it is read again. Please report this";
        log.error({ apiSessionId, identityId }, message);
      }
    } catch (error) {
      log.debug({ error }, "the sessions in memory could not be compared with the database; it is tried again");
    }
  }

  #follow(): void {
    if (this.#isFollowing) return;
    this.#isFollowing = true;
    this.#parts.changes.subscribe({
      name: "sessions",
      isPrompt: true,
      onChanges: (rows) => {
        for (const row of rows) this.#apply(row);
      },
      onReset: () => this.#forgetAll(),
    });
  }

  #apply({ kind, key, op, before }: ChangeRow): void {
    if (op === "create") return;
    switch (kind) {
      case "api_session": {
        this.#version++;
        const token = this.#bySession.get(key);
        if (token !== undefined) this.forget(token);
        return;
      }
      case "identity":
        this.#forgetIdentity(key);
        return;
      case "mfa":
        // An enrollment that becomes active, or goes with its identity, stands in the log beside its identity.
        if (op === "delete" && before !== null) this.#forgetIdentity((before as unknown as MfaBefore).identityId);
        return;
      case "auth_policy":
      case "ext_jwt_signer":
        this.#forgetAll();
    }
  }

  #forgetIdentity(id: string): void {
    this.#version++;
    for (const token of [...(this.#byIdentity.get(id) ?? [])]) this.forget(token);
  }

  #forgetAll(): void {
    this.#version++;
    this.#rows.clear();
    this.#bySession.clear();
    this.#byIdentity.clear();
  }
}

function isSame<T extends OwnedSession>({ last_activity_at: _, ...kept }: T, stored: T | undefined): boolean {
  if (stored === undefined) return false;
  const { last_activity_at: _stored, ...rest } = stored;
  return isDeepStrictEqual(kept, rest);
}
