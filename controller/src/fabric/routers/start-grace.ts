/**
 * The first moments of this process, in which the routers of the process before it, and their links, come back.
 *
 * Source: docs/protocol/fabric.md, "Restart".
 */
export class StartGrace {
  /** Runs while they are expected. */
  #timer: NodeJS.Timeout | undefined;
  readonly #endsAt: number;
  /** Routers that have connected to this process. */
  readonly #seen = new Set<string>();

  /** `onOver` is called when it ends by itself. */
  constructor(ms: number, onOver: () => void) {
    this.#endsAt = performance.now() + ms;
    this.#timer = setTimeout(() => {
      this.close();
      onOver();
    }, ms);
  }

  get isRunning(): boolean {
    return this.#timer !== undefined;
  }

  /** Milliseconds until it is over. */
  get leftMs(): number {
    return this.isRunning ? Math.max(0, this.#endsAt - performance.now()) : 0;
  }

  connected(routerId: string): void {
    if (this.isRunning) this.#seen.add(routerId);
  }

  /** May the router, which is not connected, still be on its way back from the process before? */
  isExpected(routerId: string): boolean {
    return this.isRunning && !this.#seen.has(routerId);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#seen.clear();
  }
}
