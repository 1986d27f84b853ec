import { Listeners } from "@sallyport/async";
import { type Replica, type ReplicaSet, stillRuns } from "../replica/replica-set.ts";

/** Processes that come and go as a test says. */
export class ChangingReplicas implements ReplicaSet {
  readonly #listeners = new Listeners();
  #replicas: readonly Replica[];
  #index = 0n;
  #isLeader = true;
  isShared = false;
  /** Ids of those that were to be removed. */
  readonly removed: string[] = [];

  constructor(replicas: readonly Replica[] = []) {
    this.#replicas = replicas;
  }

  replicas(): readonly Replica[] {
    return this.#replicas;
  }

  get index(): bigint {
    return this.#index;
  }

  get isLeader(): boolean {
    return this.#isLeader;
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  set(replicas: readonly Replica[], index: bigint = this.#index + 1n): void {
    this.#replicas = replicas;
    this.#index = index;
    this.#listeners.emit();
  }

  async remove(id: string): Promise<void> {
    if (this.#replicas.some((replica) => replica.id === id && replica.isLive)) throw stillRuns(id);
    this.removed.push(id);
  }

  lead(isLeader: boolean): void {
    this.#isLeader = isLeader;
    this.#listeners.emit();
  }
}

/** A process on this machine. */
export function testReplica(id: string, port = 1280, extra: Partial<Replica> = {}): Replica {
  const address = `localhost:${port}`;
  return {
    ...{ id, apiAddress: address, ctrlAddress: `tls:${address}`, fingerprint: "", version: "v1.6.20" },
    ...{ startedAt: new Date(0), isLive: true, leads: false, ...extra },
  };
}
