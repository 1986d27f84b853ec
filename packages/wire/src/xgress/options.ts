import { type FlowOptions, flowDefaults } from "./flow-options.ts";

/** Settings of an xgress: those of flow control, and the patience of a terminating end. Times in milliseconds. */
export interface XgressOptions extends FlowOptions {
  /** A terminating xgress without a first payload for this long closes. */
  readonly circuitStartTimeoutMs: number;
}

export const xgressDefaults: XgressOptions = {
  ...flowDefaults,
  // An acknowledged end needs no waiting: what still arrives for a circuit that ended here is dropped without a fault.
  closeLingerMs: 0,
  circuitStartTimeoutMs: 180_000,
};
