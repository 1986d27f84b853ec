/**
 * What a client did to a thing that begins once and ends once: an entity, a session, a permission. Times of one steady clock; `ended` is
 * `Number.POSITIVE_INFINITY` where the outcome is unknown.
 */
export interface PresenceChange {
  readonly key: string;
  readonly kind: "begin" | "end";
  readonly began: number;
  readonly ended: number;
  readonly by: string;
}

/** What a client saw of it. */
export interface PresenceSeen {
  readonly key: string;
  readonly isPresent: boolean;
  readonly began: number;
  readonly ended: number;
  readonly by: string;
}

/**
 * Every view that contradicts the changes: a thing is seen from the answer to its begin until its end is asked for, and is not seen before its begin is asked
 * for, nor from the answer to its end on. Between question and answer of a change, and for good after an end whose outcome is unknown, both views are right.
 */
export function presenceProblems(changes: readonly PresenceChange[], seen: readonly PresenceSeen[]): string[] {
  const begins = new Map<string, PresenceChange>();
  const ends = new Map<string, PresenceChange[]>();
  for (const change of changes) {
    if (change.kind === "end") ends.set(change.key, [...(ends.get(change.key) ?? []), change]);
    else if (begins.has(change.key)) throw new Error(`${change.key} began twice: use a key once`);
    else begins.set(change.key, change);
  }
  const problems: string[] = [];
  for (const view of seen) {
    const begin = begins.get(view.key);
    const own = ends.get(view.key) ?? [];
    const problem = view.isPresent ? presentProblem(view, begin, own) : absentProblem(view, begin, own);
    if (problem !== undefined) problems.push(problem);
  }
  return problems;
}

function presentProblem(
  view: PresenceSeen,
  begin: PresenceChange | undefined,
  ends: readonly PresenceChange[],
): string | undefined {
  if (begin === undefined || begin.began > view.ended) return `${textOf(view)}, which had not begun`;
  const end = ends.find(({ ended }) => ended < view.began);
  return (
    end && `${textOf(view)}, ${(view.began - end.ended).toFixed(1)} ms after its end was answered: ${changeText(end)}`
  );
}

function absentProblem(
  view: PresenceSeen,
  begin: PresenceChange | undefined,
  ends: readonly PresenceChange[],
): string | undefined {
  if (begin === undefined || begin.ended >= view.began) return undefined;
  if (ends.some(({ began }) => began <= view.ended)) return undefined;
  return `${textOf(view)}, ${(view.began - begin.ended).toFixed(1)} ms after its begin was answered: ${changeText(begin)}`;
}

function textOf({ key, isPresent, began, ended, by }: PresenceSeen): string {
  return `${by} ${isPresent ? "saw" : "did not see"} ${key} in [${began.toFixed(1)}, ${ended.toFixed(1)}]`;
}

function changeText({ kind, began, ended, by }: PresenceChange): string {
  return `${kind} by ${by} in [${began.toFixed(1)}, ${ended.toFixed(1)}]`;
}
