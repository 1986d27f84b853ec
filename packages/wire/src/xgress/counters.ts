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
  };
}
