import { splitKey } from "../kinds.ts";

/** Namespace of a key; the empty text for keys without one. */
export const namespaceOf = (key: string): string => splitKey(key).namespace ?? "";

/** Keys that wait, by when they came. Namespaces take turns; within one the order of coming counts. */
export class WaitingKeys<Key extends string> {
  /** The namespace whose turn it is stands first; none is empty. */
  readonly #namespaces = new Map<string, Map<Key, number>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  has(key: Key): boolean {
    return this.#namespaces.get(namespaceOf(key))?.has(key) ?? false;
  }

  /** The key has to be none that waits. */
  add(key: Key, since: number): void {
    const namespace = namespaceOf(key);
    const keys = this.#namespaces.get(namespace) ?? new Map<Key, number>();
    this.#namespaces.set(namespace, keys.set(key, since));
    this.#size += 1;
  }

  /** Answers when it came, if it waited. */
  delete(key: Key): number | undefined {
    const namespace = namespaceOf(key);
    const keys = this.#namespaces.get(namespace);
    const since = keys?.get(key);
    if (keys === undefined || since === undefined) return undefined;
    keys.delete(key);
    if (keys.size === 0) this.#namespaces.delete(namespace);
    this.#size -= 1;
    return since;
  }

  /** Takes the next key out, of a namespace that may have one more. */
  take(mayHave: (namespace: string) => boolean): readonly [Key, number] | undefined {
    for (const [namespace, keys] of this.#namespaces) {
      if (!mayHave(namespace)) continue;
      const [next] = keys;
      if (next === undefined) continue;
      this.delete(next[0]);
      // To the end: it is the next one's turn.
      if (this.#namespaces.delete(namespace)) this.#namespaces.set(namespace, keys);
      return next;
    }
    return undefined;
  }

  clear(): void {
    this.#namespaces.clear();
    this.#size = 0;
  }
}

/**
 * Places that several parties share, none of which can keep the others out: a party that holds some gets another one only while more are free than it holds. One party
 * alone gets half of them, two get a third each, and so on: with N parties that want all they can get, a share is left for the next. The last place is for
 * a party that holds none.
 */
export class FairShare {
  readonly #places: number;
  readonly #held = new Map<string, number>();
  #taken = 0;

  /** @param places how many there are; may be infinite */
  constructor(places: number) {
    this.#places = places;
  }

  /** Places that are held. */
  get taken(): number {
    return this.#taken;
  }

  /** Whether the party may take one more now. */
  mayTake(party: string): boolean {
    return (this.#held.get(party) ?? 0) < this.#places - this.#taken;
  }

  take(party: string): void {
    this.#held.set(party, (this.#held.get(party) ?? 0) + 1);
    this.#taken += 1;
  }

  /** Of a place that the party holds. */
  giveBack(party: string): void {
    const left = (this.#held.get(party) ?? 0) - 1;
    if (left > 0) this.#held.set(party, left);
    else this.#held.delete(party);
    this.#taken -= 1;
  }
}
