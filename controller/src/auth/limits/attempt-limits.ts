import { countedAddress } from "@sallyport/wire";
import type { AuthSettings } from "../settings.ts";
import { RateLimit, tooManyRequests } from "./rate-limit.ts";

/** From all addresses together somebody may fail so many times as often as from one. */
const ALL_ADDRESSES = 10;

/**
 * How often authentication and enrollment may be tried (docs/protocol/authentication.md, "Limits"): every try counts for the caller's address; only
 * failed ones count for whom they name, so that an identity that logs in often is not held up, and guessing is.
 */
export class AttemptLimits {
  readonly #enabled: boolean;
  /** By address, and by certificate. */
  readonly #attempts: RateLimit;
  readonly #failures: RateLimit;
  readonly #failuresOfAll: RateLimit;

  constructor({ rateLimits }: Pick<AuthSettings, "rateLimits">) {
    const { burst, perMinute } = rateLimits.failures;
    this.#enabled = rateLimits.enabled;
    this.#attempts = new RateLimit(rateLimits.address);
    this.#failures = new RateLimit(rateLimits.failures);
    this.#failuresOfAll = new RateLimit({ burst: burst * ALL_ADDRESSES, perMinute: perMinute * ALL_ADDRESSES });
  }

  /** @throws ApiError 429 when too much comes from the address */
  admit(ip: string): void {
    this.#admit(countedAddress(ip));
  }

  /** An attempt by a certificate that strangers cannot have counts for it alone. @throws ApiError 429 when there are too many by it */
  admitCertificate(fingerprint: string): void {
    this.#admit(`certificate ${fingerprint}`);
  }

  #admit(key: string): void {
    if (!this.#enabled) return;
    const wait = this.#attempts.take(key);
    if (wait > 0) throw tooManyRequests(wait, `too many attempts from ${key}`);
  }

  /** @param subject whom the attempt names: user name, fingerprint, … @throws ApiError 429 after too many failures */
  requireFewFailures(subject: string, ip: string): void {
    if (!this.#enabled) return;
    const wait = Math.max(this.#failures.wait(`${countedAddress(ip)} ${subject}`), this.#failuresOfAll.wait(subject));
    if (wait > 0) throw tooManyRequests(wait, `too many failed attempts for ${subject}`);
  }

  countFailure(subject: string, ip: string): void {
    if (!this.#enabled) return;
    this.#failures.take(`${countedAddress(ip)} ${subject}`);
    this.#failuresOfAll.take(subject);
  }
}
