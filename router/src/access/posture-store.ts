import { BoundedMap } from "@sallyport/async";
import { NOTHING_REPORTED, type PostureState } from "@sallyport/posture";

/** How long posture outlives the last channel of its API session. */
const KEEP_MS = 5 * 60_000;
/** API sessions without a channel whose posture is kept. */
export const MAX_LEFT = 10_000;

/** What devices reported, by API session. In memory only. Source: docs/protocol/posture.md, "At the router". */
export class PostureStore {
  readonly #joined = new Map<string, PostureState>();
  readonly #left = new BoundedMap<string, { readonly state: PostureState; readonly until: number }>(MAX_LEFT);

  get sizes(): { readonly joined: number; readonly left: number } {
    return { joined: this.#joined.size, left: this.#left.size };
  }

  get(apiSessionId: string): PostureState {
    return this.#joined.get(apiSessionId) ?? this.#left.get(apiSessionId)?.state ?? NOTHING_REPORTED;
  }

  /** An API session has a channel: what is known of it is taken up again. */
  join(apiSessionId: string, now: number): void {
    if (this.#joined.has(apiSessionId)) return;
    const left = this.#left.get(apiSessionId);
    this.#left.delete(apiSessionId);
    this.#joined.set(apiSessionId, left !== undefined && left.until > now ? left.state : NOTHING_REPORTED);
  }

  /** @returns whether the session has a channel; of others nothing is kept */
  set(apiSessionId: string, state: PostureState): boolean {
    if (!this.#joined.has(apiSessionId)) return false;
    this.#joined.set(apiSessionId, state);
    return true;
  }

  leave(apiSessionId: string, now: number): void {
    const state = this.#joined.get(apiSessionId);
    this.#joined.delete(apiSessionId);
    if (state !== undefined && state !== NOTHING_REPORTED)
      this.#left.set(apiSessionId, { state, until: now + KEEP_MS });
  }

  /** Forgets what has outlived its time. */
  sweep(now: number): void {
    for (const [id, { until }] of this.#left) {
      if (until > now) return;
      this.#left.delete(id);
    }
  }
}
