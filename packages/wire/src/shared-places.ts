import type { Socket } from "node:net";
import { countedAddress } from "./address.ts";

export interface PlacesLimits {
  /** Of all together, and of one address as it is counted. */
  readonly places: number;
  readonly perAddress: number;
}

export interface SharedPlace {
  /** From now on those of a lower rank give way first. The longest unraised of a rank gives way first. */
  raise(rank: number): void;
  /** Never gives way any more. */
  settle(): void;
  /** Gives the places back; further calls do nothing. */
  release(): void;
}

interface Holder {
  readonly counted: string;
  readonly weight: number;
  readonly giveWay: () => void;
  /** Undefined once it never gives way. */
  rank: number | undefined;
  isHeld: boolean;
}

/** What an address holds: as a whole, and what of it may give way. */
class Share {
  weight = 0;
  /** Weight of those that may give way. */
  yielding = 0;
  /** By rank, the longest there first. */
  readonly #ranks = new Map<number, Set<Holder>>();

  add(holder: Holder): void {
    this.weight += holder.weight;
    this.enter(holder);
  }

  remove(holder: Holder): void {
    this.weight -= holder.weight;
    this.leave(holder);
  }

  /** Puts it behind the others of its rank. */
  enter(holder: Holder): void {
    if (holder.rank === undefined) return;
    this.yielding += holder.weight;
    const rank = this.#ranks.get(holder.rank) ?? new Set();
    this.#ranks.set(holder.rank, rank.add(holder));
  }

  leave(holder: Holder): void {
    if (holder.rank === undefined) return;
    this.yielding -= holder.weight;
    const rank = this.#ranks.get(holder.rank);
    rank?.delete(holder);
    if (rank?.size === 0) this.#ranks.delete(holder.rank);
  }

  /** Who gives way next. */
  next(): Holder | undefined {
    const lowest = Math.min(...this.#ranks.keys());
    return this.#ranks.get(lowest)?.values().next().value;
  }
}

/**
 * A limited number of places with a share for each address. When a share or the whole is full, a newcomer displaces the oldest holder of the lowest
 * rank. A holder that has proved something gets a higher rank, or keeps its place for good.
 */
export class SharedPlaces {
  readonly #limits: PlacesLimits;
  readonly #all = new Share();
  readonly #shares = new Map<string, Share>();

  constructor(limits: PlacesLimits) {
    this.#limits = limits;
  }

  get taken(): number {
    return this.#all.weight;
  }

  takenBy(ip: string): number {
    return this.#shares.get(countedAddress(ip))?.weight ?? 0;
  }

  /**
   * Takes places at rank 0; undefined when there is no room and too few holders can be displaced.
   * @param giveWay called when a newcomer takes the places. Must not throw.
   * @param weight number of places, 1 when not given
   */
  take(ip: string, giveWay: () => void, weight = 1): SharedPlace | undefined {
    const counted = countedAddress(ip);
    const share = this.#shares.get(counted) ?? new Share();
    const { places, perAddress } = this.#limits;
    const overShare = share.weight + weight - perAddress;
    const overAll = this.#all.weight + weight - places;
    if (weight > Math.min(places, perAddress) || overShare > share.yielding || overAll > this.#all.yielding) {
      return undefined;
    }
    while (share.weight + weight > perAddress) this.#evict(share);
    while (this.#all.weight + weight > places) this.#evict(this.#all);
    const holder: Holder = { counted, weight, giveWay, rank: 0, isHeld: true };
    const own = this.#shares.get(counted) ?? share;
    this.#shares.set(counted, own);
    own.add(holder);
    this.#all.add(holder);
    return {
      raise: (rank) => this.#rank(holder, rank),
      settle: () => this.#rank(holder, undefined),
      release: () => this.#remove(holder),
    };
  }

  #rank(holder: Holder, rank: number | undefined): void {
    // What is settled stays so.
    if (!holder.isHeld || holder.rank === undefined) return;
    const shares = [this.#shares.get(holder.counted), this.#all];
    for (const share of shares) share?.leave(holder);
    holder.rank = rank;
    for (const share of shares) share?.enter(holder);
  }

  #evict(share: Share): void {
    const holder = share.next();
    if (holder === undefined) throw new Error("no place can be given up, though enough were counted");
    this.#remove(holder);
    holder.giveWay();
  }

  #remove(holder: Holder): void {
    if (!holder.isHeld) return;
    holder.isHeld = false;
    this.#all.remove(holder);
    const share = this.#shares.get(holder.counted);
    share?.remove(holder);
    if (share?.weight === 0) this.#shares.delete(holder.counted);
  }
}

/** The connections of a public server: at most `max`, half of them from one address. A new connection ends the oldest. */
export class SharedConnections {
  readonly #places: SharedPlaces;
  readonly #onEnded: () => void;

  /** @param onEnded called for each connection that is ended for a new one */
  constructor(max: number, onEnded: () => void = () => {}) {
    this.#places = new SharedPlaces({ places: max, perAddress: Math.ceil(max / 2) });
    this.#onEnded = onEnded;
  }

  /** Counts a connection until it closes. */
  add(socket: Socket): void {
    const place = this.#places.take(socket.remoteAddress ?? "", () => {
      socket.destroy();
      this.#onEnded();
    });
    if (place === undefined) socket.destroy();
    else socket.once("close", () => place.release());
  }
}
