/** A link as far as a contest between duplicates looks at it. */
export interface Contestant {
  readonly id: string;
  readonly isClosed: boolean;
  /** How many duplicates it has turned away. */
  readonly duplicatesRejected: number;
}

/** A link that has turned away this many duplicates gives way: the other end evidently does not see it. */
const MAX_REJECTED_DUPLICATES = 5;

/**
 * Which of two links with the same key stays (docs/protocol/links.md, "Duplicates"): the lower id, so that both ends
 * choose the same, unless the old one has already turned away five. The same id (a redial) always replaces.
 */
export function contest(existing: Contestant | undefined, added: Contestant): "add" | "replace" | "reject" {
  if (added.isClosed) return "reject";
  if (existing === undefined) return "add";
  if (existing.isClosed) return "replace";
  return existing.id < added.id && existing.duplicatesRejected + 1 <= MAX_REJECTED_DUPLICATES ? "reject" : "replace";
}
