const BITS = 32;

/** A growing set of small numbers, one bit each. */
export class Bitset {
  #words: Uint32Array;

  constructor(capacity = 0) {
    this.#words = new Uint32Array(Math.ceil(capacity / BITS));
  }

  has(bit: number): boolean {
    return (((this.#words[bit >>> 5] ?? 0) >>> (bit & 31)) & 1) === 1;
  }

  set(bit: number, value: boolean): void {
    const at = bit >>> 5;
    if (at >= this.#words.length) {
      if (!value) return;
      const grown = new Uint32Array(Math.max(at + 1, this.#words.length * 2));
      grown.set(this.#words);
      this.#words = grown;
    }
    const word = this.#words[at] ?? 0;
    const mask = 1 << (bit & 31);
    this.#words[at] = value ? word | mask : word & ~mask;
  }

  /** Adds every member of `other`. */
  add(other: Bitset): void {
    const words = other.#words;
    if (words.length > this.#words.length) {
      const grown = new Uint32Array(words.length);
      grown.set(this.#words);
      this.#words = grown;
    }
    for (let at = 0; at < words.length; at++) this.#words[at] = (this.#words[at] ?? 0) | (words[at] ?? 0);
  }

  /** Keeps only the members that `other` has, too. */
  keep(other: Bitset): void {
    for (let at = 0; at < this.#words.length; at++) this.#words[at] = (this.#words[at] ?? 0) & (other.#words[at] ?? 0);
  }

  copy(): Bitset {
    const copy = new Bitset();
    copy.#words = this.#words.slice();
    return copy;
  }

  /** The members that `other` does not have. */
  *without(other: Bitset): Generator<number> {
    for (let at = 0; at < this.#words.length; at++) {
      yield* membersOf(at, (this.#words[at] ?? 0) & ~(other.#words[at] ?? 0));
    }
  }

  /** How many members there are. */
  get size(): number {
    let size = 0;
    for (const word of this.#words) {
      let bits = word - ((word >>> 1) & 0x55555555);
      bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
      size += Math.imul((bits + (bits >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
    }
    return size;
  }

  *[Symbol.iterator](): Generator<number> {
    for (let at = 0; at < this.#words.length; at++) yield* membersOf(at, this.#words[at] ?? 0);
  }
}

function* membersOf(at: number, bits: number): Generator<number> {
  for (let word = bits; word !== 0; word &= word - 1) yield at * BITS + (31 - Math.clz32(word & -word));
}
