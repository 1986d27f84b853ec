/**
 * Places that several parties share, none of which can keep the others out: whoever holds some gets another one only while more are free than it holds. One party
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

  /** Places that somebody holds. */
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
