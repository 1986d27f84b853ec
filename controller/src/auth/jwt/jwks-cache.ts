import { BoundedMap } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { JwksFetchError } from "./jwks-fetcher.ts";
import { keysOf, type VerificationKey } from "./verification-key.ts";

const FRESH_MS = 300_000;
const USABLE_MS = 3_600_000;
const RETRY_MS = 1_000;
const RETRY_FAILED_MS = 10_000;
const MAX_SETS = 1_000;

interface KeySet {
  keys: ReadonlyMap<string, VerificationKey>;
  /** When `keys` came; -Infinity before the first time. */
  fetchedAt: number;
  triedAt: number;
  hasFailed: boolean;
  pending?: Promise<void> | undefined;
}

/**
 * Key sets by their address. A set is fetched again after five minutes, and for an unknown key id at most once a second. When a fetch fails, its keys stay
 * usable for an hour after they came.
 */
export class JwksCache {
  readonly #fetch: (endpoint: string) => Promise<unknown>;
  readonly #log: Logger;
  readonly #now: () => number;
  readonly #sets = new BoundedMap<string, KeySet>(MAX_SETS);

  /** @param now milliseconds of a clock that does not go back */
  constructor(fetch: (endpoint: string) => Promise<unknown>, log: Logger, now: () => number = () => performance.now()) {
    this.#fetch = fetch;
    this.#log = log;
    this.#now = now;
  }

  /** The key with this id, if the set has one. */
  async find(endpoint: string, kid: string): Promise<VerificationKey | undefined> {
    const set = this.#set(endpoint);
    const isKnown = set.keys.has(kid);
    const age = this.#now() - set.fetchedAt;
    if (isKnown && age < FRESH_MS) return set.keys.get(kid);
    const pause = set.hasFailed && isKnown && age < USABLE_MS ? RETRY_FAILED_MS : RETRY_MS;
    if (set.pending === undefined && this.#now() - set.triedAt >= pause) {
      set.pending = this.#refresh(endpoint, set).finally(() => {
        set.pending = undefined;
      });
    }
    await set.pending;
    return this.#now() - set.fetchedAt < USABLE_MS ? set.keys.get(kid) : undefined;
  }

  #set(endpoint: string): KeySet {
    const known = this.#sets.get(endpoint);
    if (known !== undefined) return known;
    const never = Number.NEGATIVE_INFINITY;
    const made: KeySet = { keys: new Map(), fetchedAt: never, triedAt: never, hasFailed: false };
    this.#sets.set(endpoint, made);
    return made;
  }

  async #refresh(endpoint: string, set: KeySet): Promise<void> {
    set.triedAt = this.#now();
    try {
      const keys = keysOf(await this.#fetch(endpoint));
      if (keys === undefined) throw new JwksFetchError(`${endpoint} sent no key set: expected an object with "keys"`);
      set.keys = keys;
      set.fetchedAt = this.#now();
      set.hasFailed = false;
    } catch (error) {
      set.hasFailed = true;
      if (!(error instanceof JwksFetchError)) throw error;
      this.#log.warn({ endpoint, reason: error.message }, "the keys of a token issuer could not be fetched");
    }
  }
}
