/** What the calls between replicas need to know of the set of replicas. */
export interface KnownReplica {
  readonly id: string;
  /** Of its control channel, `tls:host:port`. It leads to this process alone. */
  readonly ctrlAddress: string;
  /** `host:port` of the APIs, which other processes may share. */
  readonly apiAddress: string;
  /** Of the certificate that is seen at its addresses; it dials with the same one. */
  readonly fingerprint: string;
  /** Does it run, as far as is known? */
  readonly isLive: boolean;
}

export interface ReplicaDirectory {
  /** Every process of the network, this one among them. */
  replicas(): readonly KnownReplica[];
  /** `listener` must not throw. It is called after a change of what this says. */
  onChange(listener: () => void): () => void;
}

/** A process that serves its network alone. */
export const NO_OTHERS: ReplicaDirectory = { replicas: () => [], onChange: () => () => undefined };
