import { isDeepStrictEqual } from "node:util";
import { Listeners } from "@sallyport/async";
import type { ApiSessionRecord } from "@sallyport/wire";

type SessionListener = (session: ApiSessionRecord) => void;

/** The API sessions this router knows, by token, and the channels that wait for one to be announced. */
export class KnownApiSessions {
  readonly #byToken = new Map<string, ApiSessionRecord>();
  readonly #waiters = new Map<string, Set<SessionListener>>();
  readonly #removed = new Listeners<[ApiSessionRecord]>();
  readonly #updated = new Listeners<[ApiSessionRecord]>();

  get size(): number {
    return this.#byToken.size;
  }

  all(): ApiSessionRecord[] {
    return [...this.#byToken.values()];
  }

  get(token: string): ApiSessionRecord | undefined {
    return this.#byToken.get(token);
  }

  /** Adds or replaces; channels that wait for one of these tokens get it. */
  add(sessions: Iterable<ApiSessionRecord>): void {
    for (const session of sessions) {
      const known = this.#byToken.get(session.token);
      this.#byToken.set(session.token, session);
      if (known !== undefined && !isDeepStrictEqual(known.certFingerprints, session.certFingerprints)) {
        this.#updated.emit(session);
      }
      const waiting = this.#waiters.get(session.token);
      this.#waiters.delete(session.token);
      for (const resolve of waiting ?? []) resolve(session);
    }
  }

  remove(tokens: Iterable<string>): void {
    for (const token of tokens) {
      const session = this.#byToken.get(token);
      if (session === undefined) continue;
      this.#byToken.delete(token);
      this.#removed.emit(session);
    }
  }

  /** Removes every session for which `gone` says so. */
  removeWhere(gone: (session: ApiSessionRecord) => boolean): void {
    this.remove([...this.#byToken.values()].filter(gone).map((session) => session.token));
  }

  /**
   * The session of a token: at once when known, else when it is announced; `undefined` after `timeoutMs`. Rejects with
   * the signal's reason.
   */
  wait(token: string, o: { signal?: AbortSignal; timeoutMs: number }): Promise<ApiSessionRecord | undefined> {
    o.signal?.throwIfAborted();
    const known = this.#byToken.get(token);
    if (known !== undefined || o.timeoutMs <= 0) return Promise.resolve(known);
    return new Promise((resolve, reject) => {
      const waiting = this.#waiters.get(token) ?? new Set<SessionListener>();
      const finish = (): void => {
        clearTimeout(timer);
        o.signal?.removeEventListener("abort", aborted);
        waiting.delete(found);
        if (waiting.size === 0 && this.#waiters.get(token) === waiting) this.#waiters.delete(token);
      };
      const found = (session: ApiSessionRecord): void => {
        finish();
        resolve(session);
      };
      const aborted = (): void => {
        finish();
        reject(o.signal?.reason);
      };
      const timer = setTimeout(() => {
        finish();
        resolve(undefined);
      }, o.timeoutMs);
      o.signal?.addEventListener("abort", aborted, { once: true });
      waiting.add(found);
      this.#waiters.set(token, waiting);
    });
  }

  onRemoved(listener: SessionListener): () => void {
    return this.#removed.add(listener);
  }

  /** Called when a known session has other fingerprints. */
  onUpdated(listener: SessionListener): () => void {
    return this.#updated.add(listener);
  }
}

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
