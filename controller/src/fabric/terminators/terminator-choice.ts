import type { PrecedenceName } from "@sallyport/wire";
import { biasedCost, costWithinBand, type DynamicCosts, precedenceRank } from "../circuits/costs.ts";
import type { CircuitPath, PathFinder } from "../circuits/path.ts";
import { CircuitFailureCause } from "../fabric-events.ts";
import { type CircuitService, isTerminatorStrategy, type TerminatorRecord, type TerminatorStrategy } from "../ports.ts";

/** A terminator that can be reached. `cost` is its biased cost (see costs.ts). */
export interface TerminatorCandidate {
  readonly id: string;
  readonly precedence: PrecedenceName;
  readonly cost: number;
}

/** Draws in favour of low costs. */
function weighted<C extends TerminatorCandidate>(best: readonly [C, ...C[]], random: () => number): C {
  if (best.length === 1) return best[0];
  const costs = best.map((c) => Math.max(1, costWithinBand(c.precedence, c.cost)));
  const total = costs.reduce((sum, cost) => sum + cost, 0);
  // The shares 1 - cost/total of n terminators add up to n - 1; the draw is stretched by as much, so that every terminator can be chosen.
  const draw = random() * (best.length - 1);
  let cumulated = 0;
  for (const [index, candidate] of best.entries()) {
    cumulated += 1 - (costs[index] ?? 0) / total;
    if (cumulated > draw) return candidate;
  }
  return best[0];
}

/**
 * Chooses one of `candidates`; undefined when there are none.
 * `smartrouting` takes the cheapest. The others look only at the best precedence: `weighted` draws in favour of low costs, `random` draws evenly, `sticky`
 * takes the terminator that was asked for, else the cheapest. Source: docs/protocol/fabric.md, "Strategies".
 *
 * @param chance `random` is uniform in [0, 1)
 * @returns `stickyId`: what the initiator gets back so that it can ask for the same terminator again
 */
export function selectTerminator<C extends TerminatorCandidate>(
  strategy: TerminatorStrategy,
  candidates: readonly C[],
  { random, stickyId }: { readonly random: () => number; readonly stickyId?: string | undefined },
): { readonly chosen: C; readonly stickyId?: string } | undefined {
  const [first, ...rest] = [...candidates].sort((a, b) => a.cost - b.cost || (a.id < b.id ? -1 : 1));
  if (first === undefined) return undefined;
  const bestRank = precedenceRank(first.precedence);
  const best: [C, ...C[]] = [first, ...rest.filter((c) => precedenceRank(c.precedence) === bestRank)];
  switch (strategy) {
    case "smartrouting":
      return { chosen: first };
    case "weighted":
      return { chosen: weighted(best, random) };
    case "random":
      return { chosen: best[Math.floor(random() * best.length)] ?? first };
    case "sticky": {
      const chosen = best.find((c) => c.id === stickyId) ?? first;
      return { chosen, stickyId: chosen.id };
    }
  }
}

export interface ChoiceRequest {
  readonly service: CircuitService;
  /** Empty: only terminators without one take part. */
  readonly instanceId: string;
  /** Router the circuit begins at. */
  readonly from: string;
  readonly stickyId?: string | undefined;
}

export type Choice =
  | {
      readonly ok: true;
      readonly terminator: TerminatorRecord;
      readonly path: CircuitPath;
      readonly stickyId: string | undefined;
    }
  | { readonly ok: false; readonly cause: CircuitFailureCause; readonly message: string };

/**
 * Chooses terminator and path for a circuit: among the terminators of the instance id that is asked for, those on connected routers that can be reached, by
 * the strategy of the service. Pure but for `random`.
 *
 * Source: docs/protocol/fabric.md, "Strategies".
 */
export function chooseTerminator(
  request: ChoiceRequest,
  terminators: readonly TerminatorRecord[],
  paths: PathFinder,
  isConnected: (routerId: string) => boolean,
  costs: Pick<DynamicCosts, "of">,
  random: () => number = Math.random,
): Choice {
  const { service, instanceId } = request;
  const none = (cause: CircuitFailureCause, message: string) => ({ ok: false, cause, message }) as const;
  const { InvalidStrategy, NoTerminators, NoOnlineTerminators, NoPath } = CircuitFailureCause;
  if (!isTerminatorStrategy(service.terminatorStrategy)) {
    const asked = service.terminatorStrategy;
    return none(InvalidStrategy, `service ${service.name} asks for the unknown terminator strategy "${asked}"`);
  }
  if (terminators.length === 0) return none(NoTerminators, `service ${service.name} has no terminators`);
  const ofInstance = terminators.filter((t) => t.instanceId === instanceId);
  if (ofInstance.length === 0) {
    return none(NoTerminators, `service ${service.name} has no terminators for instanceId ${instanceId}`);
  }
  const online = ofInstance.filter((t) => isConnected(t.routerId));
  if (online.length === 0) {
    return none(NoOnlineTerminators, `service ${service.name} has no online terminators for instanceId ${instanceId}`);
  }
  const candidates = online.flatMap((terminator) => {
    const pathCost = paths.cost(request.from, terminator.routerId);
    if (pathCost === undefined) return [];
    const { id, precedence, cost: staticCost } = terminator;
    const cost = biasedCost({ precedence, staticCost, dynamicCost: costs.of(id), pathCost });
    return [{ id, precedence, terminator, cost }];
  });
  const selection = selectTerminator(service.terminatorStrategy, candidates, { random, stickyId: request.stickyId });
  const path = selection && paths.path(request.from, selection.chosen.terminator.routerId);
  if (selection === undefined || path === undefined) {
    return none(NoPath, `no path from router ${request.from} to a terminator of service ${service.name}`);
  }
  return { ok: true, terminator: selection.chosen.terminator, path, stickyId: selection.stickyId };
}
