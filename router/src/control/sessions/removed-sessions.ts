/** How long a removed session's token is refused without asking. */
const REMEMBER_MS = 5 * 60_000;
const MAX_REMEMBERED = 100_000;

/** Tokens of sessions that were removed lately: a bind or dial with one of them, already on its way, is refused. */
export class RemovedSessions {
  readonly #until = new Map<string, number>();

  add(token: string, now: number): void {
    this.#until.delete(token);
    this.#until.set(token, now + REMEMBER_MS);
    for (const [oldest, until] of this.#until) {
      if (until > now && this.#until.size <= MAX_REMEMBERED) break;
      this.#until.delete(oldest);
    }
  }

  has(token: string, now: number): boolean {
    return (this.#until.get(token) ?? 0) > now;
  }
}
