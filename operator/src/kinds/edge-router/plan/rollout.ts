/** What the order of a rollout depends on, for one router. */
export interface RolloutFacts {
  readonly ordinal: number;
  /** There is nothing yet: it is made at once. */
  readonly exists: boolean;
  readonly isOutdated: boolean;
  /** A pod of its newest template is ready: it may carry circuits, also while no controller has it. */
  readonly isServing: boolean;
  /** It serves, and the network has it and its data model is there. */
  readonly isAvailable: boolean;
  /** It has been ready for a while: who was sent away from it is back. */
  readonly isSettled: boolean;
}

/**
 * Which routers may be brought up to date now. One whose pod is not ready, or goes anyway, costs nothing. Of those that serve, one that no controller has comes first, since a
 * change may mend it; but never more of them than may be away at a time: when a controller was started anew all routers are without it for a moment, and
 * carry on. One that is there for the network, too, waits until as few are away as may be; one that is back for a moment only still counts as away, but for itself. A router that does not
 * come back so keeps the next ones from being touched.
 */
export function rolloutTurn(routers: readonly RolloutFacts[], maxUnavailable: number): ReadonlySet<number> {
  const there = routers.filter(({ exists }) => exists);
  const down = there.filter(({ isServing }) => !isServing).length;
  const away = there.filter(({ isAvailable, isSettled }) => !isAvailable || !isSettled).length;
  const outdated = routers.filter(({ isOutdated }) => isOutdated);
  const free = outdated.filter(({ exists, isServing }) => !exists || !isServing);
  const serving = outdated.filter(({ exists, isServing }) => exists && isServing);
  const lost = serving.filter(({ isAvailable }) => !isAvailable).slice(0, Math.max(0, maxUnavailable - down));
  const again = away > maxUnavailable ? [] : serving.filter((each) => each.isAvailable && !each.isSettled);
  const next = serving
    .filter((each) => each.isAvailable && each.isSettled)
    .slice(0, Math.max(0, maxUnavailable - away));
  return new Set([...free, ...lost, ...again, ...next].map(({ ordinal }) => ordinal));
}
