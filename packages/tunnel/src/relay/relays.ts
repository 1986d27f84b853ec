/** A circuit that is joined to a connection of an application. */
export interface Relay {
  /** Ends both. */
  close(reason: string): void;
}

/** The circuits of a tunneler, for who waits for their end. */
export class Relays {
  readonly #relays = new Set<Relay>();
  #onEmpty: (() => void) | undefined;

  get size(): number {
    return this.#relays.size;
  }

  add(relay: Relay): void {
    this.#relays.add(relay);
  }

  remove(relay: Relay): void {
    this.#relays.delete(relay);
    if (this.#relays.size === 0) this.#onEmpty?.();
  }

  /** Waits for the end of all of them, then ends those that are left. @returns how many had to be ended */
  async drain(limitMs: number, reason: string): Promise<number> {
    if (this.#relays.size > 0 && limitMs > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, limitMs);
        this.#onEmpty = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#onEmpty = undefined;
    }
    const left = [...this.#relays];
    for (const relay of left) relay.close(reason);
    return left.length;
  }
}
