import type { RevocationBefore } from "../../store/changes/logged-write.ts";
import type { TokenStore } from "./token-keys.ts";

/**
 * Single tokens that were revoked before their end, in memory: asked for each request. A revocation counts as soon as its row of the change log is noticed.
 * Sessions and identities are not here: their rows decide.
 */
export class RevokedTokens {
  readonly #store: TokenStore;
  readonly #now: () => Date;
  /** Until when, in milliseconds, by `jti`. */
  #until = new Map<string, number>();
  #unsubscribe: (() => void) | undefined;

  constructor(options: { readonly store: TokenStore; readonly now: () => Date }) {
    this.#store = options.store;
    this.#now = options.now;
  }

  async start(): Promise<void> {
    this.#unsubscribe ??= this.#store.changes.subscribe({
      name: "revoked tokens",
      isPrompt: true,
      onChanges: (rows) => {
        for (const { kind, key, op, before } of rows) {
          if (kind !== "revocation") continue;
          const { type, expiresAt } = before as unknown as RevocationBefore;
          if (op === "delete") this.#until.delete(key);
          else if (type === "JTI") this.#until.set(key, Date.parse(expiresAt));
        }
      },
      onReset: () => this.#load(),
    });
    await this.#load();
  }

  /** {@link has}, with all that was committed before. */
  async isRevoked(jti: string): Promise<boolean> {
    await this.#store.changes.noticed();
    return this.has(jti);
  }

  /** For callers that have waited for the change log. */
  has(jti: string): boolean {
    const until = this.#until.get(jti);
    return until !== undefined && until > this.#now().getTime();
  }

  close(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  async #load(): Promise<void> {
    const rows = await this.#store.db
      .selectFrom("revocation")
      .select(["id", "expires_at"])
      .where("type", "=", "JTI")
      .execute();
    // What was noticed while the rows were read stays: a row that is gone meanwhile has ended anyway.
    for (const { id, expires_at } of rows) this.#until.set(id, expires_at.getTime());
  }
}
