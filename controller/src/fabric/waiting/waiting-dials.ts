/** Dials of one router that wait at a time. They hold a place among its requests, and its other requests must not wait for them. */
const MAX_PER_ROUTER = 500;

/** The dials that wait for something that passes, by their router. */
export class WaitingDials {
  readonly #counts = new Map<string, number>();

  /** False when too many of the router wait already; else {@link end} follows. */
  begin(routerId: string): boolean {
    const waiting = this.#counts.get(routerId) ?? 0;
    if (waiting >= MAX_PER_ROUTER) return false;
    this.#counts.set(routerId, waiting + 1);
    return true;
  }

  end(routerId: string): void {
    const left = (this.#counts.get(routerId) ?? 1) - 1;
    if (left > 0) this.#counts.set(routerId, left);
    else this.#counts.delete(routerId);
  }
}
