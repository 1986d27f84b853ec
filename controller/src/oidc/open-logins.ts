/** How many logins are open. Each takes a row, and clients begin them without a session. */
import { type SharedPlace, SharedPlaces } from "@sallyport/wire";
import { AttemptLimits, type AttemptRates, type Origin } from "../auth/limits/attempt-limits.ts";

export const MAX_OPEN_LOGINS = 100_000;
export const MAX_OPEN_LOGINS_PER_ADDRESS = 5_000;

export interface OpenLoginsOptions {
  readonly rates: AttemptRates;
  /** How long a login stays open. */
  readonly lifeMs: number;
  readonly now: () => Date;
  /** How many controllers share the rates. */
  readonly liveReplicas?: () => number;
  /** Called with the id of a login that makes room for another one. Must not throw. */
  readonly gaveWay: (id: string) => void;
  readonly max?: number;
  readonly maxPerAddress?: number;
}

/**
 * Counts in memory what this controller has begun. The oldest login of an address makes room for a further one from there, and the oldest of all when there are
 * too many: a client that leaves its logins open keeps no other one out. Logins that end early make room at once.
 */
export class OpenLogins {
  readonly #options: OpenLoginsOptions;
  readonly #limits: AttemptLimits;
  readonly #places: SharedPlaces;
  /** By id, the oldest first. */
  readonly #open = new Map<string, { readonly place: SharedPlace | undefined; readonly until: number }>();

  constructor(options: OpenLoginsOptions) {
    const { rates, max: places = MAX_OPEN_LOGINS, maxPerAddress: perAddress = MAX_OPEN_LOGINS_PER_ADDRESS } = options;
    this.#options = options;
    this.#limits = new AttemptLimits(rates, options.liveReplicas);
    this.#places = new SharedPlaces({ places, perAddress });
  }

  get size(): number {
    this.#forgetOld();
    return this.#open.size;
  }

  /**
   * @param certificate the fingerprint of the caller's certificate of the network
   * @returns what the login counts for
   * @throws ApiError 429 when too many begin from there
   */
  admit(from: Origin, certificate: () => string | undefined): Origin {
    const origin = this.#limits.originWithRoom(from, certificate);
    this.#limits.admit(origin);
    return origin;
  }

  add(id: string, { key }: Origin): void {
    this.#forgetOld();
    const place = this.#places.take(key, () => this.#giveWay(id));
    this.#open.set(id, { place, until: this.#options.now().getTime() + this.#options.lifeMs });
  }

  /** The login is finished. */
  remove(id: string): void {
    this.#open.get(id)?.place?.release();
    this.#open.delete(id);
  }

  #giveWay(id: string): void {
    this.#open.delete(id);
    this.#options.gaveWay(id);
  }

  #forgetOld(): void {
    const now = this.#options.now().getTime();
    for (const [id, { until }] of this.#open) {
      if (until > now) return;
      this.remove(id);
    }
  }
}
