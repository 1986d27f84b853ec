/**
 * Settings of flow control; names and defaults are those of the router's configuration file, the last group is ours
 * (docs/protocol/xgress.md "Settings").
 */
export interface FlowOptions {
  /** First window: bytes sent and not acknowledged. */
  readonly txPortalStartSize: number;
  readonly txPortalMinSize: number;
  /** Largest window, and the fill of the peer's receive buffer above which nothing new is sent. */
  readonly txPortalMaxSize: number;
  /** Acknowledged payloads between two increases of the window. */
  readonly txPortalIncreaseThresh: number;
  readonly txPortalIncreaseScale: number;
  /** Retransmissions between two decreases of the window. */
  readonly txPortalRetxThresh: number;
  readonly txPortalRetxScale: number;
  /** Duplicate acknowledgements after which retransmission becomes more patient. */
  readonly txPortalDupAckThresh: number;
  /** Bytes the receiver holds before it refuses new payloads. */
  readonly rxBufferSize: number;
  /** Milliseconds before a payload is retransmitted while no round trip was measured. */
  readonly retxStartMs: number;
  /** Least factor between round trip and retransmission. */
  readonly retxScale: number;
  readonly retxAddMs: number;
  /** 0: no limit. */
  readonly retxMaxMs: number;
  /** One sample counts at most this many times the last round trip; 0: no limit. */
  readonly maxRttScale: number;
  /** Longest wait for acknowledgements when closing, since something was acknowledged. */
  readonly maxCloseWaitMs: number;

  /** Never retransmit earlier than this: acknowledgements may come in batches. */
  readonly retxFloorMs: number;
  /** A closing sender stays this long after everything was acknowledged. */
  readonly closeLingerMs: number;
  /** A closing sender waits so long for the acknowledgement of its end mark when that is all that is missing. */
  readonly endWaitMs: number;
  /** As `maxCloseWaitMs`, when the source ended in order before it went: outages of links are shorter. */
  readonly orderlyWaitMs: number;
  /** Payloads in flight, or held out of order, at most: empty ones cost no bytes but memory. */
  readonly maxPayloads: number;
}

export const flowDefaults: FlowOptions = {
  txPortalStartSize: 4_194_304,
  txPortalMinSize: 16_384,
  txPortalMaxSize: 4_194_304,
  txPortalIncreaseThresh: 28,
  txPortalIncreaseScale: 1,
  txPortalRetxThresh: 64,
  txPortalRetxScale: 0.75,
  txPortalDupAckThresh: 64,
  rxBufferSize: 4_194_304,
  retxStartMs: 200,
  retxScale: 1.5,
  retxAddMs: 0,
  retxMaxMs: 10_000,
  maxRttScale: 4,
  maxCloseWaitMs: 30_000,
  retxFloorMs: 100,
  closeLingerMs: 5_000,
  endWaitMs: 5_000,
  orderlyWaitMs: 300_000,
  maxPayloads: 16_384,
};
