/**
 * Settings of flow control; names and defaults are those of the router's configuration file, the last group is ours
 * (docs/protocol/xgress.md "Settings").
 */
export const flowDefaults = {
  /** First window: bytes sent and not acknowledged. */
  txPortalStartSize: 4_194_304,
  txPortalMinSize: 16_384,
  /** Largest window, and the fill of the peer's receive buffer above which nothing new is sent. */
  txPortalMaxSize: 4_194_304,
  /** Acknowledged payloads between two increases of the window. */
  txPortalIncreaseThresh: 28,
  txPortalIncreaseScale: 1,
  /** Retransmissions between two decreases of the window. */
  txPortalRetxThresh: 64,
  txPortalRetxScale: 0.75,
  /** Duplicate acknowledgements after which retransmission becomes more patient. */
  txPortalDupAckThresh: 64,
  /** Bytes the receiver holds before it refuses new payloads. */
  rxBufferSize: 4_194_304,
  /** Milliseconds before a payload is retransmitted while no round trip was measured. */
  retxStartMs: 200,
  /** Least factor between round trip and retransmission. */
  retxScale: 1.5,
  retxAddMs: 0,
  /** 0: no limit. */
  retxMaxMs: 10_000,
  /** One sample counts at most this many times the last round trip; 0: no limit. */
  maxRttScale: 4,
  /** Longest wait for acknowledgements when closing, since something was acknowledged. */
  maxCloseWaitMs: 30_000,

  /** Never retransmit earlier than this: acknowledgements may come in batches. */
  retxFloorMs: 100,
  /** A closing sender stays this long after everything was acknowledged. */
  closeLingerMs: 5_000,
  /** A closing sender waits so long for the acknowledgement of its end mark when that is all that is missing. */
  endWaitMs: 5_000,
  /** As `maxCloseWaitMs`, when the source ended in order before it went: outages of links are shorter. */
  orderlyWaitMs: 300_000,
  /** Payloads in flight, or held out of order, at most: empty ones cost no bytes but memory. */
  maxPayloads: 16_384,
};
export type FlowOptions = Readonly<typeof flowDefaults>;

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
