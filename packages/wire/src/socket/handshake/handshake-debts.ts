import { BoundedMap } from "@sallyport/async";
import { countedAddress } from "../../ip-address.ts";

/** Of each second, milliseconds that an address may cost: 5 % of a core. With less, one costly handshake would shut out for longer whoever shares the address. */
const PAID_PER_SECOND = 50;
/** Milliseconds of debt up to which an address is served: some failed handshakes of ordinary clients cost less. */
const TOLERATED_MS = 100;
/** Less is nothing. */
const LEAST_MS = 0.001;
const MAX_ADDRESSES = 4_096;

interface Debt {
  readonly ms: number;
  /** When it was that much. */
  readonly at: number;
}

/** What addresses owe for costly handshakes, in milliseconds of CPU time; time pays for it. An IPv6 network of 64 bits counts as one address. */
export class HandshakeDebts {
  readonly #now: () => number;
  /** Those that were charged last come last. */
  readonly #debts = new BoundedMap<string, Debt>(MAX_ADDRESSES);

  /** @param now milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  charge(ip: string, ms: number): void {
    const address = countedAddress(ip);
    const debt = this.#owed(address) + ms;
    this.#debts.set(address, { ms: debt, at: this.#now() });
  }

  /**
   * Whole milliseconds until the address is served again, 0 when it is.
   *
   * @param pending what it may come to owe for handshakes under way
   */
  shutFor(ip: string, pending = 0): number {
    const tooMuch = this.#owed(countedAddress(ip)) + pending - TOLERATED_MS;
    // Sums of fractions are not exact: who has waited as long as this says is served.
    return tooMuch < LEAST_MS ? 0 : Math.ceil((tooMuch * 1000) / PAID_PER_SECOND);
  }

  #owed(address: string): number {
    const debt = this.#debts.get(address);
    if (debt === undefined) return 0;
    const left = debt.ms - ((this.#now() - debt.at) * PAID_PER_SECOND) / 1000;
    if (left > 0) return left;
    this.#debts.delete(address);
    return 0;
  }
}
