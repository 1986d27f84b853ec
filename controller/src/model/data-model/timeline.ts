/**
 * The timeline of a state that goes out in parts: it names the index that only the last part leads to, so that a router which lost its channel in between is
 * not taken for one that has everything. Source: docs/protocol/data-model.md, "Large networks".
 */
export function timelineOfParts(timeline: string, index: bigint): string {
  return `${timeline}/parts/${index}`;
}

/** Does a router that is at `index` of the timeline `given` have everything up to there of ours? */
export function isOnTimeline(timeline: string, given: string, index: bigint): boolean {
  if (given === timeline) return true;
  const prefix = timelineOfParts(timeline, 0n).slice(0, -1);
  if (!given.startsWith(prefix)) return false;
  const end = given.slice(prefix.length);
  return /^\d{1,20}$/.test(end) && index >= BigInt(end);
}
