import type { AcceptOptions, XgressOptions } from "@sallyport/wire";

/** What the file sets for an edge listener; times in milliseconds. */
export interface EdgeSettings {
  /** Address SDKs reach this listener at, `host:port`, for the connect reports. */
  advertise: string;
  /** How long an SDK channel waits for its API session to be announced. */
  lookupApiSessionTimeoutMs: number;
  /** How long a dial waits for its circuit. */
  getCircuitTimeoutMs: number;
  /** How long a connection may take for its hello. */
  connectTimeoutMs: number;
  /** What may wait for an SDK that does not read, and how many connections may be in their hello. */
  limits?: Pick<AcceptOptions, "maxPending" | "writeTimeoutMs" | "maxHellos">;
  xgress: XgressOptions;
}

/** Limits that no file sets. */
export const EDGE_LIMITS = {
  /** How often an SDK whose channel is not read, because a circuit of it is stuck, gets a sign of life. */
  stoppedHeartbeatMs: 5_000,
  /** Listeners one identity may have here: each costs memory and a request to the controller, whatever its token is. */
  maxListeners: 10_000,
  /** Dials and binds of one channel that may wait for the data model or the controller. */
  maxConnecting: 1_000,
  /** Channels one identity may have here. */
  maxChannels: 1_000,
  /** Channels that may wait for their API session to be known, half of them from one address. */
  maxWaiting: 1_000,
};

export type EdgeOptions = EdgeSettings & typeof EDGE_LIMITS;
