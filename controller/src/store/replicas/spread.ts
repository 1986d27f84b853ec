import { Listeners, nextCall } from "@sallyport/async";

/** Another process on the database, as far as this one knows. */
export interface OtherReplica {
  readonly instance: string;
  /** Empty, as is the name, until its lease was seen. */
  readonly replicaId: string;
  /** Program, host and process number. */
  readonly name: string;
  /** Did it lead when its lease was last seen? */
  readonly leads: boolean;
}

interface Known extends OtherReplica {
  /** The newest of this process's messages whose writes it knows. */
  seen: number;
  /** The look at the leases that was the newest when it was first heard of. */
  readonly since: number;
}

/**
 * How far the other processes on the database know what this process has written. They are known by their leases and by their messages: a process answers
 * from memory only after every other one has heard of it. Source: docs/protocol/replicas.md, "Freshness".
 */
export class Spread {
  readonly #known = new Map<string, Known>();
  readonly #changed = new Listeners();
  #looks = 0;

  get others(): readonly OtherReplica[] {
    return [...this.#known.values()];
  }

  /** A look at the leases begins. @returns its number, for {@link looked} */
  look(): number {
    this.#looks += 1;
    return this.#looks;
  }

  /** The processes that had a lease at a look. One that was first heard of after the look began stays. */
  looked(look: number, live: readonly OtherReplica[], count: number): void {
    const instances = new Set(live.map(({ instance }) => instance));
    for (const [instance, { since }] of this.#known) {
      if (since < look && !instances.has(instance)) this.#known.delete(instance);
    }
    for (const other of live) {
      this.heardOf(other.instance, count);
      const known = this.#known.get(other.instance);
      if (known !== undefined) this.#known.set(other.instance, { ...known, ...other });
    }
    this.#changed.emit();
  }

  /**
   * A process exists. If it is new, it knows everything up to the message `count`: it answers from memory only after it has read the log again.
   * @returns whether it is new
   */
  heardOf(instance: string, count: number): boolean {
    if (this.#known.has(instance)) return false;
    this.#known.set(instance, { instance, replicaId: "", name: "", leads: false, seen: count, since: this.#looks });
    return true;
  }

  /** A process knows everything that was written before the message `count`. */
  seenBy(instance: string, count: number): void {
    const known = this.#known.get(instance);
    if (known === undefined || count <= known.seen) return;
    known.seen = count;
    this.#changed.emit();
  }

  isKnownByAll(count: number): boolean {
    return this.#known.values().every(({ seen }) => seen >= count);
  }

  /** Resolves with the next change of what {@link isKnownByAll} says, or after `ms`. */
  nextChange(ms: number): Promise<void> {
    return nextCall((listener) => this.#changed.add(listener), ms);
  }
}
