import { type Address, formatAddress, type Logger } from "@sallyport/wire";
import type { Controllers } from "./controllers.ts";

export interface ConfiguredAddressesOptions {
  readonly controllers: Controllers;
  /** `ctrl.endpoint` and `ctrl.endpoints`. */
  readonly configured: readonly Address[];
  /** The addresses that the controllers announced last. */
  readonly announced: () => readonly Address[];
  readonly log: Logger;
  /** For tests; 10 s. */
  readonly patienceMs?: number;
}

const PATIENCE_MS = 10_000;

/**
 * The way back when every controller has moved while the router was away: the addresses of the configuration are dialed
 * besides the announced ones when no controller was connected for a while (docs/protocol/control.md, "Controller addresses").
 */
export class ConfiguredAddresses {
  readonly #o: ConfiguredAddressesOptions;
  #timer: NodeJS.Timeout | undefined;
  #areDialed = false;

  constructor(options: ConfiguredAddressesOptions) {
    this.#o = options;
    const { controllers } = options;
    controllers.onConnected(({ address }) => this.#connected(address));
    controllers.onDisconnected(() => {
      if (controllers.all().length === 0) this.#wait();
    });
    this.#wait();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #wait(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#dial(), this.#o.patienceMs ?? PATIENCE_MS);
    this.#timer.unref();
  }

  #dial(): void {
    const { controllers, configured, announced, log } = this.#o;
    const known = new Set(announced().map(formatAddress));
    const more = configured.filter((address) => !known.has(formatAddress(address)));
    if (more.length === 0) return;
    log.warn(
      { announced: [...known], configured: more.map(formatAddress) },
      "no controller answers at the announced addresses; the configured ones are dialed, too",
    );
    this.#areDialed = true;
    controllers.setEndpoints([...announced(), ...more]);
  }

  #connected(address: string): void {
    clearTimeout(this.#timer);
    if (!this.#areDialed || !this.#o.announced().some((each) => formatAddress(each) === address)) return;
    this.#areDialed = false;
    this.#o.controllers.setEndpoints(this.#o.announced());
  }
}
