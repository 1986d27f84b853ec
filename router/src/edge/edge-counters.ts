/** What the edge counts: plain numbers that a timer publishes. */
export type EdgeCounters = ReturnType<typeof edgeCounters>;

export function edgeCounters() {
  return {
    /** SDKs that were admitted, and that were not. */
    connects: 0,
    connectsFailed: 0,
    disconnects: 0,
    /** Unknown API sessions; and those that came while a controller still announced its sessions. */
    invalidTokens: 0,
    invalidTokensDuringSync: 0,
    /** Messages for connections that are not there: payloads, acknowledgements, anything. */
    droppedPayloads: 0,
    droppedAcks: 0,
    droppedMessages: 0,
  };
}
