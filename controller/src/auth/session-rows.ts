import { BoundedMap } from "@sallyport/async";
import type { ModelStore } from "../model/context.ts";
import type { ChangeRow } from "../store/change-log.ts";
import type { MfaBefore } from "../store/logged-write.ts";

/** The session and the identity whose changes a kept row depends on. */
export interface OwnedSession {
  readonly id: string;
  readonly identity_id: string;
}

interface Kept<T> {
  readonly row: T;
  readonly until: number;
}

/** About 1.5 KB each. */
export const MAX_ROWS = 25_000;
/** Limits the effect of a writer that forgets to append to the change log; rows that were read together are not read together again. */
const LIFE_MS = 600_000;
const SPREAD = 0.1;

/**
 * The rows that requests read first, by token, kept in memory until the change log says that they may differ. Every look-up waits until it knows all earlier
 * commits, so an ended session or a disabled identity counts from the next request on.
 */
export class SessionRows<T extends OwnedSession> {
  readonly #changes: ModelStore["changes"];
  readonly #load: (token: string) => Promise<T | undefined>;
  readonly #rows = new BoundedMap<string, Kept<T>>(MAX_ROWS, (token, { row }) => this.#unlink(token, row));
  /** Tokens by session, and by identity. */
  readonly #bySession = new Map<string, string>();
  readonly #byIdentity = new Map<string, Set<string>>();
  /** Grows with every change that could concern a row that is being read. */
  #version = 0;
  #isFollowing = false;

  constructor(changes: ModelStore["changes"], load: (token: string) => Promise<T | undefined>) {
    this.#changes = changes;
    this.#load = load;
  }

  async find(token: string): Promise<T | undefined> {
    this.#follow();
    await this.#changes.noticed();
    const kept = this.#rows.get(token);
    if (kept !== undefined && performance.now() < kept.until) return kept.row;
    const version = this.#version;
    const row = await this.#load(token);
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

  #follow(): void {
    if (this.#isFollowing) return;
    this.#isFollowing = true;
    this.#changes.subscribe({
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
