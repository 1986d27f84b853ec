/** How often every xgress is looked at. */
const INTERVAL_MS = 100;

/** Something that wants to be looked at from time to time. */
export interface Scanned {
  scan(now: number): void;
}

/**
 * One timer per router for retransmission and closing of all circuits. It runs only while there are circuits.
 */
export class ScanTimer {
  readonly #scanned = new Set<Scanned>();
  #timer: NodeJS.Timeout | undefined;

  add(scanned: Scanned): void {
    this.#scanned.add(scanned);
    if (this.#timer !== undefined) return;
    this.#timer = setInterval(this.#scan, INTERVAL_MS);
    this.#timer.unref();
  }

  delete(scanned: Scanned): void {
    this.#scanned.delete(scanned);
    if (this.#scanned.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  readonly #scan = (): void => {
    const now = performance.now();
    for (const scanned of this.#scanned) scanned.scan(now);
  };
}
