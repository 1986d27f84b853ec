import { countedAddress } from "@sallyport/wire";
import type { AuthSettings } from "../settings.ts";
import { RateLimit, tooManyRequests } from "./rate-limit.ts";

/** From all addresses together somebody may fail so many times as often as from one. */
const ALL_ADDRESSES = 10;

/** Of the passwords that are checked at once (`auth/password.ts`) those of one address leave room for others. */
const MOST_OF_ONE = 48;

/**
 * How often authentication and enrollment may be tried (docs/protocol/authentication.md, "Limits"): every try counts for the caller's address; only
 * failed ones count for whom they name, so that an identity that logs in often is not held up, and guessing is.
 */
export class AttemptLimits {
  readonly #enabled: boolean;
  readonly #address: RateLimit;
  readonly #failures: RateLimit;
  readonly #failuresOfAll: RateLimit;
  /** Password checks under way, by address. */
  readonly #underWay = new Map<string, number>();

  constructor({ rateLimits }: Pick<AuthSettings, "rateLimits">) {
    const { burst, perMinute } = rateLimits.failures;
    this.#enabled = rateLimits.enabled;
    this.#address = new RateLimit(rateLimits.address);
    this.#failures = new RateLimit(rateLimits.failures);
    this.#failuresOfAll = new RateLimit({ burst: burst * ALL_ADDRESSES, perMinute: perMinute * ALL_ADDRESSES });
  }

  /** @throws ApiError 429 when too much comes from the address */
  admit(ip: string): void {
    if (!this.#enabled) return;
    const network = countedAddress(ip);
    const wait = this.#address.take(network);
    if (wait > 0) throw tooManyRequests(wait, `too many attempts from ${network}`);
  }

  /** @param subject whom the attempt names: user name, fingerprint, … @throws ApiError 429 after too many failures */
  requireFewFailures(subject: string, ip: string): void {
    if (!this.#enabled) return;
    const wait = Math.max(this.#failures.wait(`${countedAddress(ip)} ${subject}`), this.#failuresOfAll.wait(subject));
    if (wait > 0) throw tooManyRequests(wait, `too many failed attempts for ${subject}`);
  }

  /** Does what takes a share of what all callers have together. @throws ApiError 429 when the address has its share already */
  async withinShare<T>(ip: string, work: () => Promise<T>): Promise<T> {
    if (!this.#enabled) return work();
    const network = countedAddress(ip);
    const before = this.#underWay.get(network) ?? 0;
    if (before >= MOST_OF_ONE) throw tooManyRequests(1_000, `${before} passwords of ${network} are being checked`);
    this.#underWay.set(network, before + 1);
    try {
      return await work();
    } finally {
      const left = (this.#underWay.get(network) ?? 1) - 1;
      if (left > 0) this.#underWay.set(network, left);
      else this.#underWay.delete(network);
    }
  }

  countFailure(subject: string, ip: string): void {
    if (!this.#enabled) return;
    this.#failures.take(`${countedAddress(ip)} ${subject}`);
    this.#failuresOfAll.take(subject);
  }
}
