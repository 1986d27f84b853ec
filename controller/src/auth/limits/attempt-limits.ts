import { countedAddress } from "@sallyport/wire";
import type { AuthSettings, Rate } from "../settings.ts";
import { RateLimit, tooManyRequests } from "./rate-limit.ts";

/** From all addresses together somebody may fail so many times as often as from one; a router may pass on so many times as much as comes from one. */
const ALL_ADDRESSES = 10;

/**
 * How often authentication and enrollment may be tried (docs/protocol/authentication.md, "Limits"): every try counts for the caller's address; only
 * failed ones count for whom they name, so that an identity that logs in often is not held up, and guessing is.
 */
export class AttemptLimits {
  readonly #enabled: boolean;
  /** By address, and by certificate. */
  readonly #attempts: RateLimit;
  readonly #ofRouters: RateLimit;
  readonly #failures: RateLimit;
  readonly #failuresOfAll: RateLimit;

  constructor({ rateLimits }: Pick<AuthSettings, "rateLimits">) {
    this.#enabled = rateLimits.enabled;
    this.#attempts = new RateLimit(rateLimits.address);
    this.#ofRouters = new RateLimit(timesAll(rateLimits.address));
    this.#failures = new RateLimit(rateLimits.failures);
    this.#failuresOfAll = new RateLimit(timesAll(rateLimits.failures));
  }

  /** @throws ApiError 429 when too much comes from the address */
  admit(ip: string): void {
    this.#admit(countedAddress(ip));
  }

  /** An attempt by a certificate that strangers cannot have counts for it alone. @throws ApiError 429 when there are too many by it */
  admitCertificate(fingerprint: string): void {
    this.#admit(`certificate ${fingerprint}`);
  }

  /**
   * An attempt that a router passes on for a client at `ip`: counts for that address behind that router, and for the router, which may tell any address.
   * @throws ApiError 429
   */
  admitPassedOn(routerFingerprint: string, ip: string): void {
    const router = `router ${routerFingerprint}`;
    this.#admit(router, this.#ofRouters);
    this.#admit(`${countedAddress(ip)} behind ${router}`);
  }

  #admit(key: string, limit = this.#attempts): void {
    if (!this.#enabled) return;
    const wait = limit.take(key);
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

function timesAll({ burst, perMinute }: Rate): Rate {
  return { burst: burst * ALL_ADDRESSES, perMinute: perMinute * ALL_ADDRESSES };
}
