/**
 * A map with at most so many entries. `set` makes its key the newest, and beyond the bound the oldest entry goes; `get` changes no
 * order, `touch` does.
 */
export class BoundedMap<K, V> extends Map<K, V> {
  readonly #maxSize: number;
  readonly #onEvicted: ((key: K, value: V) => void) | undefined;

  /** @param onEvicted is called with each entry that goes because of the bound */
  constructor(maxSize: number, onEvicted?: (key: K, value: V) => void) {
    super();
    this.#maxSize = maxSize;
    this.#onEvicted = onEvicted;
  }

  override set(key: K, value: V): this {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.#maxSize) this.#evict();
    return this;
  }

  /** Like `get`, and makes the key the newest. */
  touch(key: K): V | undefined {
    const value = this.get(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  #evict(): void {
    for (const [key, value] of this) {
      this.delete(key);
      this.#onEvicted?.(key, value);
      return;
    }
  }
}
