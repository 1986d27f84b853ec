/** How much is done for a figure. */
export interface Effort {
  /** Divides the number of routers, terminators and requests. */
  readonly divisor: number;
  /** How long controllers are watched at rest. */
  readonly restSeconds: number;
}

/** Measures something in a folder of its own, and emits its figures. */
export type Row = (folder: string, effort: Effort) => Promise<void>;
