/** What the edge counts: plain numbers that a timer publishes. */
export interface EdgeCounters {
  /** SDKs that were admitted, and that were not. */
  connects: number;
  connectsFailed: number;
  disconnects: number;
  /** API sessions that nobody knows; and that came while a controller still announced its sessions. */
  invalidTokens: number;
  invalidTokensDuringSync: number;
  /** Messages for connections that are not there: payloads, acknowledgements, anything. */
  droppedPayloads: number;
  droppedAcks: number;
  droppedMessages: number;
}

export function edgeCounters(): EdgeCounters {
  return {
    connects: 0,
    connectsFailed: 0,
    disconnects: 0,
    invalidTokens: 0,
    invalidTokensDuringSync: 0,
    droppedPayloads: 0,
    droppedAcks: 0,
    droppedMessages: 0,
  };
}
