/** What an operator sets in the section `network` of controller.yml. Durations in milliseconds. Source: docs/protocol/fabric.md, "Settings". */
export interface FabricSettings {
  /** Total number of attempts for one circuit. */
  readonly createCircuitRetries: number;
  /** Wait for the answers of one attempt, and the deadline of a whole circuit request. */
  readonly routeTimeoutMs: number;
  /** Period of smart rerouting and of clean-up. */
  readonly cycleMs: number;
  readonly minRouterCost: number;
  /** Latency assumed for each end of a link until that end has reported. */
  readonly initialLinkLatencyMs: number;
  /** Window in which a router may replace its own live channel only {@link FabricOptions.maxTakeovers} times. */
  readonly routerConnectChurnLimitMs: number;
  readonly rerouteFraction: number;
  readonly rerouteCap: number;
  readonly minCostDelta: number;
}

/** The settings, a clock, and constants of which only tests take others. */
export interface FabricOptions extends FabricSettings {
  /** The time by which controllers agree, in milliseconds; of this machine unless given. What concerns one process alone goes by the steady clock. */
  readonly now: () => number;
  readonly maxTakeovers: number;
  /** How long links and circuits of a router are kept after its control channel ended. */
  readonly reconnectGraceMs: number;
  /** How long a client or a dial waits, after a start, for routers and links that may come back. A client that gives up after the usual five seconds hears the reason before. */
  readonly returnWaitMs: number;
  /** How long {@link Fabric.announceApiSession} waits for a slow router. */
  readonly announceTimeoutMs: number;
  /** Control channels of routers that answer no heartbeat for so long are closed. */
  readonly closeUnresponsiveMs: number;
  /** A router that leaves more than this unread is disconnected: it catches up by a full synchronisation when it comes back. */
  readonly maxQueuedBytes: number;
}

/** What no file sets. */
export const FABRIC_LIMITS: Omit<FabricOptions, keyof FabricSettings> = {
  now: Date.now,
  maxTakeovers: 3,
  reconnectGraceMs: 15_000,
  returnWaitMs: 4_000,
  announceTimeoutMs: 1_000,
  closeUnresponsiveMs: 30_000,
  maxQueuedBytes: 32 * 1024 * 1024,
};
