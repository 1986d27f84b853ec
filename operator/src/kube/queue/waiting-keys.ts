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
