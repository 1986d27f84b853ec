import { isIPv6 } from "node:net";
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
  readonly #address: RateLimit;
  readonly #failures: RateLimit;
  readonly #failuresOfAll: RateLimit;

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
    const network = networkOf(ip);
    const wait = this.#address.take(network);
    if (wait > 0) throw tooManyRequests(wait, `too many attempts from ${network}`);
  }

  /** @param subject whom the attempt names: user name, fingerprint, … @throws ApiError 429 after too many failures */
  requireFewFailures(subject: string, ip: string): void {
    if (!this.#enabled) return;
    const wait = Math.max(this.#failures.wait(`${networkOf(ip)} ${subject}`), this.#failuresOfAll.wait(subject));
    if (wait > 0) throw tooManyRequests(wait, `too many failed attempts for ${subject}`);
  }

  countFailure(subject: string, ip: string): void {
    if (!this.#enabled) return;
    this.#failures.take(`${networkOf(ip)} ${subject}`);
    this.#failuresOfAll.take(subject);
  }
}

/** A caller with IPv6 has a whole /64 of addresses: they count as one. */
export function networkOf(ip: string): string {
  if (!isIPv6(ip)) return ip;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip)?.[1];
  if (mapped !== undefined) return mapped;
  const plain = ip.split("%", 1)[0] ?? ip;
  const [head = "", tail] = plain.split("::", 2);
  const groups = head === "" ? [] : head.split(":");
  const behind = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros =
    tail === undefined ? [] : Array.from({ length: Math.max(0, 8 - groups.length - behind.length) }, () => "0");
  return `${[...groups, ...zeros, ...behind]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":")}::/64`;
}
