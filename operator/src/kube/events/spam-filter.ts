const BURST = 25;
const TOKEN_MS = 300_000;
const SIMILAR_LIMIT = 10;
const SIMILAR_MS = 600_000;
/** Objects that are remembered. */
const MEMORY = 4096;

interface Bucket {
  tokens: number;
  filledAt: number;
}

interface Similar {
  readonly notes: Set<string>;
  lastAt: number;
}

/** Keeps one object from filling the event store: a number of writes per object, and events that differ only in their words become one. */
export class SpamFilter {
  readonly #buckets = new Map<string, Bucket>();
  readonly #similar = new Map<string, Similar>();

  /** True when one more write about the object is allowed: 25 at once, then one in five minutes. */
  allows(object: string): boolean {
    const now = performance.now();
    const bucket = remember(this.#buckets, object, () => ({ tokens: BURST, filledAt: now }));
    bucket.tokens = Math.min(BURST, bucket.tokens + (now - bucket.filledAt) / TOKEN_MS);
    bucket.filledAt = now;
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }

  /** True when more than ten events like this one, with different notes, came within ten minutes: they are told as one. */
  isFlood(kindOfEvent: string, note: string): boolean {
    const now = performance.now();
    const similar = remember(this.#similar, kindOfEvent, () => ({ notes: new Set<string>(), lastAt: now }));
    if (now - similar.lastAt > SIMILAR_MS) similar.notes.clear();
    similar.lastAt = now;
    if (similar.notes.size <= SIMILAR_LIMIT) similar.notes.add(note);
    return similar.notes.size > SIMILAR_LIMIT;
  }
}

/** The entry of a key, made when missing; the one that was used longest ago is forgotten. */
export function remember<V>(map: Map<string, V>, key: string, make: () => V, limit = MEMORY): V {
  const value = map.get(key) ?? make();
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > limit && oldest !== undefined) map.delete(oldest);
  return value;
}
