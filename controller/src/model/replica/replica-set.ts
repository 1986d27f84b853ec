import { type ApiError, apiError, notFound, unhandledCause } from "@sallyport/api";

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
  /** Does it do what has to be done once, as far as is known? */
  readonly leads: boolean;
}

/** What a process writes down of itself. */
export type ReplicaRecord = Omit<Replica, "isLive" | "leads">;

export interface ReplicaSet {
  /** Every process of the network, this one among them, in the order of their ids. */
  replicas(): readonly Replica[];
  /** Number of the present set: it grows with each change of ids, addresses and leader. 0 if there was never more than one process: routers need not be told. */
  readonly index: bigint;
  /** Does this process do what has to be done once? */
  readonly isLeader: boolean;
  /** May there be others? */
  readonly isShared: boolean;
  /**
   * Removes a process that is gone for good, with its certificate: routers forget its address at once.
   * @throws ApiError: 404 for an id that is not in the set; 400 `ENTITY_CAN_NOT_BE_DELETED` for a process that runs
   */
  remove(id: string): Promise<void>;
  /** `listener` must not throw. It is called after a change of what this says. */
  onChange(listener: () => void): () => void;
}

/** Why a process that runs is not removed: it would come back at once. */
export function stillRuns(id: string): ApiError {
  return apiError("ENTITY_CAN_NOT_BE_DELETED", unhandledCause(`controller ${id} runs: stop it first, then remove it`));
}

/** A process that serves its network alone. */
export function soleReplica(own: () => ReplicaRecord): ReplicaSet {
  return {
    replicas: () => [{ ...own(), isLive: true, leads: true }],
    index: 0n,
    isLeader: true,
    isShared: false,
    remove: async (id) => {
      throw id === own().id ? stillRuns(id) : notFound("controller", id);
    },
    onChange: () => () => undefined,
  };
}
