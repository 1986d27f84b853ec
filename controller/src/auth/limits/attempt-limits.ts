import { countedAddress } from "@sallyport/wire";
import type { AuthSettings, Rate } from "../settings.ts";
import { RateLimit, tooManyRequests } from "./rate-limit.ts";

/** A subject may fail this many times as often from all addresses together as from one; a router may pass on this many times as much as one address. */
const ALL_ADDRESSES = 10;

/** Where an attempt comes from. */
export interface Origin {
  /** The address as it is counted, or that address behind a router. */
  readonly key: string;
  /** The router that passes the attempt on. */
  readonly router?: string;
}

/** A client at `ip` that connects itself. */
export function originAt(ip: string): Origin {
  return { key: countedAddress(ip) };
}

/** A client for which a router passes the attempt on. The router can claim any address. */
export function originBehind(routerFingerprint: string, ip: string): Origin {
  const router = `router ${routerFingerprint}`;
  return { key: `${countedAddress(ip)} behind ${router}`, router };
}

/**
 * How often authentication and enrollment may be tried (docs/protocol/authentication.md, "Limits"): every try counts for where it comes from; only
 * failed ones count for their subject, so that guessing is slowed down and an identity that logs in often is not.
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

  /**
   * What is refused takes nothing of the router's share: one client cannot use it up. An exhausted router is refused first: addresses that it makes up take no memory.
   * @throws ApiError 429 when too much comes from the address, or from the router
   */
  admit({ key, router }: Origin): void {
    if (!this.#enabled) return;
    if (router !== undefined) refuseAfter(this.#ofRouters.wait(router), router);
    refuseAfter(this.#attempts.take(key), key);
    if (router !== undefined) this.#ofRouters.take(router);
  }

  /** An attempt by a certificate that strangers cannot have counts for it alone. @throws ApiError 429 when there are too many by it */
  admitCertificate(fingerprint: string): void {
    this.admit({ key: `certificate ${fingerprint}` });
  }

  /** @param subject the subject of the attempt: user name, fingerprint, … @throws ApiError 429 after too many failures */
  requireFewFailures(subject: string, { key }: Origin): void {
    if (!this.#enabled) return;
    const wait = Math.max(this.#failures.wait(`${key} ${subject}`), this.#failuresOfAll.wait(subject));
    if (wait > 0) throw tooManyRequests(wait, `too many failed attempts for ${subject}`);
  }

  countFailure(subject: string, { key }: Origin): void {
    if (!this.#enabled) return;
    this.#failures.take(`${key} ${subject}`);
    this.#failuresOfAll.take(subject);
  }
}

function refuseAfter(wait: number, key: string): void {
  if (wait > 0) throw tooManyRequests(wait, `too many attempts from ${key}`);
}

function timesAll({ burst, perMinute }: Rate): Rate {
  return { burst: burst * ALL_ADDRESSES, perMinute: perMinute * ALL_ADDRESSES };
}
