/** What the ends of circuits have on their hands at one moment, summed up. */
export type XgressLoad = ReturnType<typeof xgressLoad>;

export function xgressLoad() {
  return {
    /** Ends that wait for their window, and for room at the other end. */
    blockedByWindow: 0,
    blockedByPeer: 0,
    unackedPayloads: 0,
    unackedBytes: 0,
    /** Ends with acknowledgements to send. */
    acksWaiting: 0,
  };
}

/** What all xgress of a router have done since start: plain numbers that a timer may publish. */
export type XgressCounters = ReturnType<typeof xgressCounters>;

export function xgressCounters() {
  return {
    /** Payloads sent for the first time, and their bytes of data. */
    payloadsOut: 0,
    bytesOut: 0,
    /** Payloads that arrived in time, and their bytes of data. */
    payloadsIn: 0,
    bytesIn: 0,
    retransmissions: 0,
    /** Payloads that had arrived before. */
    duplicates: 0,
    /** Payloads dropped because the receive buffer was full. */
    dropped: 0,
    acksOut: 0,
    acksIn: 0,
    /** Acknowledgements of what was acknowledged before, and those that had no way to go. */
    acksDuplicate: 0,
    acksFailed: 0,
    /** Payloads that should have been sent again and had no way to go. */
    retransmissionsFailed: 0,
    /** How often a sender had to wait for its window, and for room at the other end. */
    blockedByWindow: 0,
    blockedByPeer: 0,
    /** How often a source was stopped because too much waited, and for how long in all. */
    sourceStops: 0,
    sourceStoppedMs: 0,
  };
}
