import { type Family, formatIp, parseIp, parseRange, widthOf } from "../intercept/ip-range.ts";
import { InterceptError } from "../interceptor.ts";

/** Hands out the addresses of a range: the freed ones first, in the order in which they were freed, then the next new one. */
export class AddressPool {
  readonly #family: Family;
  readonly #last: bigint;
  readonly #freed: bigint[] = [];
  readonly #taken = new Set<bigint>();
  #next: bigint;

  /**
   * @param range `address/length`: the first address given out is the one after `address` (100.64.0.2 of `100.64.0.1/10`),
   *   the last one is the highest of the range
   * @throws InterceptError when it is no range
   */
  constructor(range: string) {
    const parsed = parseRange(range);
    const start = parseIp(range.split("/")[0] ?? "");
    if (parsed === undefined || start === undefined || !range.includes("/")) {
      throw new InterceptError("BAD_RANGE", `"${range}" is no range of addresses; expected one like 100.64.0.1/10`);
    }
    this.#family = parsed.family;
    this.#last = parsed.base + (1n << BigInt(widthOf(parsed.family) - parsed.length)) - 1n;
    this.#next = start.value + 1n;
  }

  get family(): Family {
    return this.#family;
  }

  /** Undefined when all are taken. */
  take(): string | undefined {
    let value = this.#freed.shift();
    if (value === undefined) {
      if (this.#next > this.#last) return undefined;
      value = this.#next++;
    }
    this.#taken.add(value);
    return formatIp(this.#family, value);
  }

  free(address: string): void {
    const ip = parseIp(address);
    if (ip !== undefined && this.#taken.delete(ip.value)) this.#freed.push(ip.value);
  }
}
