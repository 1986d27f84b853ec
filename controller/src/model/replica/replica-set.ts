/** The processes that serve a network together. Source: docs/protocol/control.md, "Several controllers". */

/** One process as all of them know it. */
export interface Replica {
  readonly id: string;
  /** `host:port` of the APIs at this process alone. */
  readonly apiAddress: string;
  /** Of its control channel, for example `tls:c1.example:6262`. */
  readonly ctrlAddress: string;
  /** Of the certificate that is seen at its addresses. */
  readonly fingerprint: string;
  readonly version: string;
  readonly startedAt: Date;
  /** Does it run, as far as is known? */
  readonly isLive: boolean;
}

export interface ReplicaSet {
  /** Every process of the network, this one among them, in the order of their ids. */
  replicas(): readonly Replica[];
  /** Number of the present set: it grows with each change of ids, addresses and leader. 0 if there was never more than one process: routers need not be told. */
  readonly index: bigint;
  /** Does this process do what has to be done once? */
  readonly isLeader: boolean;
  /** `listener` must not throw. It is called after a change of what this says. */
  onChange(listener: () => void): () => void;
}

/** A process that serves its network alone. */
export function soleReplica(own: () => Omit<Replica, "isLive">): ReplicaSet {
  return {
    replicas: () => [{ ...own(), isLive: true }],
    index: 0n,
    isLeader: true,
    onChange: () => () => undefined,
  };
}
