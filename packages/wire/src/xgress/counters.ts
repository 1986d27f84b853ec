/** What all xgress of a router have done since start: plain numbers that a timer may publish. */
export interface XgressCounters {
  /** Payloads sent for the first time, and their bytes of data. */
  payloadsOut: number;
  bytesOut: number;
  /** Payloads that arrived in time, and their bytes of data. */
  payloadsIn: number;
  bytesIn: number;
  retransmissions: number;
  /** Payloads that had arrived before. */
  duplicates: number;
  /** Payloads dropped because the receive buffer was full. */
  dropped: number;
  acksOut: number;
  acksIn: number;
  /** Acknowledgements of what was acknowledged before, and those that had no way to go. */
  acksDuplicate: number;
  acksFailed: number;
  /** Payloads that should have been sent again and had no way to go. */
  retransmissionsFailed: number;
  /** How often a sender had to wait for its window, and for room at the other end. */
  blockedByWindow: number;
  blockedByPeer: number;
  /** How often a source was stopped because too much waited, and for how long in all. */
  sourceStops: number;
  sourceStoppedMs: number;
}

/** What the ends of circuits have on their hands at one moment, summed up. */
export interface XgressLoad {
  /** Ends that wait for their window, and for room at the other end. */
  blockedByWindow: number;
  blockedByPeer: number;
  unackedPayloads: number;
  unackedBytes: number;
  /** Ends with acknowledgements to send. */
  acksWaiting: number;
}

export function xgressLoad(): XgressLoad {
  return { blockedByWindow: 0, blockedByPeer: 0, unackedPayloads: 0, unackedBytes: 0, acksWaiting: 0 };
}

export function xgressCounters(): XgressCounters {
  return {
    payloadsOut: 0,
    bytesOut: 0,
    payloadsIn: 0,
    bytesIn: 0,
    retransmissions: 0,
    duplicates: 0,
    dropped: 0,
    acksOut: 0,
    acksIn: 0,
    acksDuplicate: 0,
    acksFailed: 0,
    retransmissionsFailed: 0,
    blockedByWindow: 0,
    blockedByPeer: 0,
    sourceStops: 0,
    sourceStoppedMs: 0,
  };
}
