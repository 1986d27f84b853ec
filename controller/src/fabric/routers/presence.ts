/**
 * Routers whose control channel ended a moment ago. Their data plane most likely still works, so what they carry is left alone until they come back or the
 * grace time is over.
 *
 * Source: docs/protocol/fabric.md, "Rerouting".
 */
export class Presence {
  readonly #graceMs: number;
  readonly #awaited = new Map<string, NodeJS.Timeout>();
  readonly #onGone: (routerId: string) => void;

  /** `onGone` is called when a router did not come back in time. */
  constructor(graceMs: number, onGone: (routerId: string) => void) {
    this.#graceMs = graceMs;
    this.#onGone = onGone;
  }

  get isAnyAwaited(): boolean {
    return this.#awaited.size > 0;
  }

  lost(routerId: string): void {
    this.back(routerId);
    const timer = setTimeout(() => this.givenUp(routerId), this.#graceMs);
    this.#awaited.set(routerId, timer);
  }

  back(routerId: string): void {
    clearTimeout(this.#awaited.get(routerId));
    this.#awaited.delete(routerId);
  }

  /** Not to be waited for (any longer). */
  givenUp(routerId: string): void {
    this.back(routerId);
    this.#onGone(routerId);
  }

  close(): void {
    for (const timer of this.#awaited.values()) clearTimeout(timer);
    this.#awaited.clear();
  }
}
