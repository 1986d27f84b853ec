/** The other controllers of the network, as the fabric needs them. Source: docs/protocol/replicas.md, "Circuits". */

/** The controllers of the network, of which routers are told. */
export interface ControllerSetPort {
  replicas(): readonly { readonly id: string; readonly ctrlAddress: string }[];
  /** Number of the present set, which grows with each change; 0 as long as routers need not be told. */
  readonly index: bigint;
  readonly isLeader: boolean;
  onChange(listener: () => void): () => void;
}

/** What a router says about a circuit that another controller than the one that hears it may have. */
export type CircuitReport = { readonly circuitId: string; readonly routerId: string } & (
  | { readonly kind: "ended" }
  /** The router cannot forward it. */
  | { readonly kind: "unforwardable" }
  /** Has it no traffic, and for how long? */
  | { readonly kind: "idle"; readonly idleNs: bigint | undefined }
);

/** A circuit that a controller wants to answer for. */
export interface ClaimedCircuit {
  readonly id: string;
  /** Id of the controller that routers file it under. */
  readonly filedUnder: string;
}

/** What an administrator has set of a link. */
export interface LinkSetting {
  readonly staticCost: number;
  readonly isDown: boolean;
}

/** What is set of links, at any of the controllers. */
export interface LinkSettings {
  of(linkId: string): LinkSetting | undefined;
  /** Stores a setting for all controllers, or (undefined) removes it. */
  set(linkId: string, setting: LinkSetting | undefined): Promise<void>;
  /** Calls `listener`, which must not throw, with what was set, here or elsewhere. */
  onChange(listener: (linkId: string, setting: LinkSetting) => void): () => void;
}

export interface FabricReplicas {
  readonly links: LinkSettings;
  /** Are there several controllers, or may others come? */
  readonly isShared: boolean;
  /** Does this one do what has to be done once? */
  readonly isLeader: boolean;
  /**
   * Undefined while others may take this one's circuits over, because its lease has run out. It is another number afterwards: what has become of the circuits
   * is to be looked up.
   */
  readonly leaseTerm: number | undefined;
  /** How long a controller has been gone, in milliseconds; 0 for one that lives, or that may have stopped a moment ago only. */
  goneForMs(controllerId: string): number;
  /** Calls `listener`, which must not throw, when this controller has looked at the leases: all of the above may have changed. */
  onLook(listener: () => void): () => void;
  /** Calls `listener` when this controller has to take over the circuits of others that are gone. */
  onSuccession(listener: () => void): () => void;
  /** Ids of those that this controller answers for from now on. Of each circuit one controller does. */
  claim(circuits: readonly ClaimedCircuit[]): Promise<ReadonlySet<string>>;
  /** Ids of the living controllers, other than this one, that have claimed any of these circuits. */
  ownersOf(circuitIds: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Circuits that this controller has claimed have ended. */
  ended(circuitIds: readonly string[]): void;
  /** Passes on what routers have said to the controller that has the circuits. Resolves when that one has acted on it, or is gone. */
  pass(controllerId: string, reports: readonly CircuitReport[]): Promise<void>;
  /** Has `hear` act on what others pass on. */
  onReports(hear: (reports: readonly CircuitReport[]) => Promise<void>): () => void;
}

const never = () => () => undefined;

/** A controller that is alone on its network. */
export const ALONE: FabricReplicas = {
  // The table of links has them.
  links: { of: () => undefined, set: async () => undefined, onChange: never },
  isShared: false,
  isLeader: true,
  leaseTerm: 0,
  goneForMs: () => 0,
  onLook: never,
  onSuccession: never,
  claim: async (circuits) => new Set(circuits.map(({ id }) => id)),
  ownersOf: async () => new Map(),
  ended: () => undefined,
  pass: async () => undefined,
  onReports: never,
};
