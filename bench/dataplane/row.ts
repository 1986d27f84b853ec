import type { Paths } from "./paths.ts";

/** How much is done for a figure. */
export interface Effort {
  /** Bytes of one throughput run. */
  readonly bytes: number;
  /** Runs of the same, in turn with the others'. */
  readonly rounds: number;
  /** Circuits that are opened, 16 at a time. */
  readonly circuits: number;
  readonly roundTrips: number;
  readonly idleCircuits: number;
  /** How long memory is watched under load. */
  readonly memorySeconds: number;
}

/** A row of the table: measures something over the paths it asks for, and emits its figures. */
export type Row = (paths: Paths, effort: Effort) => Promise<void>;
