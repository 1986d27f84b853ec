/** A change of the network as it goes to routers. */
export interface DataModelChange {
  /** The router's index after it. */
  readonly index: bigint;
  /** Body of the ChangeSet, the same for every router. */
  readonly body: Buffer;
}

/** The whole network. */
export interface DataModelState {
  /** The router's index after all of it. */
  readonly index: bigint;
  /** Body of the DataState. */
  readonly body: Buffer;
  /** Bodies of the ChangeSets that complete it: those of a large network, to be sent in this order as fast as the router reads. */
  readonly rest: readonly Buffer[];
}

/** How a whole state is wanted. */
export interface StateOptions {
  /** Another one than the model's. */
  readonly timeline?: string | undefined;
  /** In one message up to {@link MAX_WHOLE_STATE}, for routers that put a new state in force at once, whatever is still to come. */
  readonly isWhole?: boolean;
}

/** Longest state that goes out in one message: less than what may wait for a router. */
export const MAX_WHOLE_STATE = 24 * 1024 * 1024;

/** The whole network, and the timeline that its index belongs to. */
export interface PlacedState extends DataModelState {
  /** The model's, also when the state goes out under another one. */
  readonly timeline: string;
}

/** The model does not fit into one message. */
export class DataModelTooLargeError extends Error {
  override name = "DataModelTooLargeError";
}

/** Everything that routers know of the network: identities, services, configs, policies and what they select, posture checks, certificates. */
export interface DataModelSource {
  /** A router feed begins to use the model. Its memory is freed some time after the last {@link release}. */
  acquire(): void;
  release(): void;
  /** Resolves when the model is loaded and follows the network. Only while it is acquired. */
  ready(): Promise<void>;
  /** Where the newest change leads to. Only when it is ready, as all that follows. */
  readonly index: bigint;
  readonly timeline: string;
  /** A router is at an index: resolves when the model is there, too, unless it is ahead of what any controller has stored. */
  reach(index: bigint): Promise<void>;
  /** Does a router have everything up to `index` when it says that it is there, on `timeline`? */
  continues(timeline: string, index: bigint): boolean;
  /** The changes after an index, oldest first; undefined when they are not all kept: then the whole state is needed. */
  changesAfter(index: bigint): readonly DataModelChange[] | undefined;
  /** The whole model; every caller gets the same buffers until it changes, unless it wants another timeline. */
  state(options?: StateOptions): Promise<PlacedState>;
  /**
   * Body of a request to compare a router's model with this one. `fix`: the router takes over what differs.
   * @throws DataModelTooLargeError
   */
  validationRequest(fix: boolean): Promise<Buffer>;
  /** Calls `listener` whenever `index` has grown; returns how to stop. */
  onChange(listener: () => void): () => void;
}
