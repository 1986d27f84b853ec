/** How many logins are open. Each takes a row, and clients begin them without a session. */
import { AttemptLimits, type AttemptRates, type Origin } from "../auth/limits/attempt-limits.ts";
import { tooManyRequests } from "../auth/limits/rate-limit.ts";

export const MAX_OPEN_LOGINS = 100_000;
export const MAX_OPEN_LOGINS_PER_ADDRESS = 5_000;

export interface OpenLoginsOptions {
  readonly rates: AttemptRates;
  /** How long a login stays open. */
  readonly lifeMs: number;
  readonly now: () => Date;
  readonly max?: number;
  readonly maxPerAddress?: number;
}

/** Counts in memory what this controller has begun; logins that end early make room at once. */
export class OpenLogins {
  readonly #options: OpenLoginsOptions;
  readonly #limits: AttemptLimits;
  /** By id, the oldest first. */
  readonly #open = new Map<string, { readonly key: string; readonly until: number }>();
  readonly #perAddress = new Map<string, number>();

  constructor(options: OpenLoginsOptions) {
    this.#options = options;
    this.#limits = new AttemptLimits(options.rates);
  }

  get size(): number {
    this.#forgetOld();
    return this.#open.size;
  }

  /** @throws ApiError 429 when too many begin from there, or too many are open */
  admit(origin: Origin): void {
    this.#limits.admit(origin);
    this.#forgetOld();
    const { max = MAX_OPEN_LOGINS, maxPerAddress = MAX_OPEN_LOGINS_PER_ADDRESS, lifeMs } = this.#options;
    const own = this.#perAddress.get(origin.key) ?? 0;
    if (own < maxPerAddress && this.#open.size < max) return;
    const oldest = this.#open.values().next().value?.until ?? 0;
    const waitMs = own < maxPerAddress ? oldest - this.#options.now().getTime() : lifeMs / 10;
    throw tooManyRequests(waitMs, `${this.#open.size} logins are open, ${own} of them from ${origin.key}`);
  }

  add(id: string, { key }: Origin): void {
    this.#open.set(id, { key, until: this.#options.now().getTime() + this.#options.lifeMs });
    this.#perAddress.set(key, (this.#perAddress.get(key) ?? 0) + 1);
  }

  /** The login is finished. */
  remove(id: string): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    this.#open.delete(id);
    const left = (this.#perAddress.get(open.key) ?? 0) - 1;
    if (left > 0) this.#perAddress.set(open.key, left);
    else this.#perAddress.delete(open.key);
  }

  #forgetOld(): void {
    const now = this.#options.now().getTime();
    for (const [id, { until }] of this.#open) {
      if (until > now) return;
      this.remove(id);
    }
  }
}
