import { SerialQueue } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";

/** Makes addresses local to this machine, so that sockets can be bound to them. */
export interface LocalRoutes {
  /** @param prefix an IP address or a range. @throws an error which says what to do */
  add(prefix: string): Promise<void>;
  remove(prefix: string): Promise<void>;
}

/** The addresses that connections to targets may come from, each local as long as a terminator needs it. */
export class SourceAddresses {
  readonly #routes: LocalRoutes | undefined;
  readonly #log: Logger;
  readonly #uses = new Map<string, number>();
  /** One change of routes after the other. */
  readonly #work = new SerialQueue();

  /** @param routes without them only addresses that are local anyway can be used */
  constructor(routes: LocalRoutes | undefined, log: Logger) {
    this.#routes = routes;
    this.#log = log;
  }

  /** Makes them local; what fails is logged, and then shows at dials that want them. @returns gives them back */
  async acquire(prefixes: readonly string[]): Promise<() => Promise<void>> {
    const wanted = [...new Set(prefixes)];
    await this.#inTurn(wanted, async (prefix) => {
      const uses = this.#uses.get(prefix) ?? 0;
      this.#uses.set(prefix, uses + 1);
      if (uses === 0) await this.#routes?.add(prefix);
    });
    let isHeld = true;
    return async () => {
      if (!isHeld) return;
      isHeld = false;
      await this.#inTurn(wanted, async (prefix) => {
        const uses = (this.#uses.get(prefix) ?? 1) - 1;
        if (uses > 0) {
          this.#uses.set(prefix, uses);
          return;
        }
        this.#uses.delete(prefix);
        await this.#routes?.remove(prefix);
      });
    };
  }

  #inTurn(prefixes: readonly string[], change: (prefix: string) => Promise<void>): Promise<void> {
    return this.#work.run(async () => {
      for (const prefix of prefixes) {
        try {
          await change(prefix);
        } catch (err) {
          this.#log.error({ prefix, err }, "the route of a source address could not be changed");
        }
      }
    });
  }
}
