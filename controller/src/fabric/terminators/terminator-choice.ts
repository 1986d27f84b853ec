import type { PrecedenceName } from "@sallyport/wire";
import { biasedCost, costWithinBand, type DynamicCosts, precedenceRank } from "../circuits/costs.ts";
import type { Path, PathFinder } from "../circuits/path.ts";
import { CircuitFailureCause } from "../fabric-events.ts";
import { type CircuitService, isTerminatorStrategy, type TerminatorRecord, type TerminatorStrategy } from "../ports.ts";

/**
 * How one of a service's terminators is chosen. Pure: chance comes in as a function.
 *
 * Source: docs/protocol/fabric.md, "Strategies".
 */

/** A terminator that can be reached. `cost` is its biased cost (see costs.ts). */
export interface Candidate {
  readonly id: string;
  readonly precedence: PrecedenceName;
  readonly cost: number;
}

export interface Selection<C extends Candidate> {
  readonly chosen: C;
  /** Id to hand back to the initiator so that it can ask for the same terminator again. */
  readonly stickyId?: string;
}

interface SelectionInput<C extends Candidate> {
  /** Those of the best precedence by cost, then id; never empty. */
  readonly best: readonly [C, ...C[]];
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** The terminator id the initiator asks to stay with. */
  readonly stickyId: string | undefined;
}

function weighted<C extends Candidate>({ best, random }: SelectionInput<C>): C {
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

function sticky<C extends Candidate>({ best, stickyId }: SelectionInput<C>): Selection<C> {
  const chosen = best.find((c) => c.id === stickyId) ?? best[0];
  return { chosen, stickyId: chosen.id };
}

function random<C extends Candidate>({ best, random: draw }: SelectionInput<C>): C {
  return best[Math.floor(draw() * best.length)] ?? best[0];
}

/**
 * Chooses one of `candidates`; undefined when there are none.
 * `smartrouting` takes the cheapest. The others look only at the best precedence: `weighted` draws in favour of low costs, `random` draws evenly, `sticky`
 * takes the terminator that was asked for, else the cheapest.
 */
export function selectTerminator<C extends Candidate>(
  strategy: TerminatorStrategy,
  candidates: readonly C[],
  chance: { readonly random: () => number; readonly stickyId?: string | undefined },
): Selection<C> | undefined {
  const [first, ...rest] = [...candidates].sort((a, b) => a.cost - b.cost || (a.id < b.id ? -1 : 1));
  if (first === undefined) return undefined;
  const bestRank = precedenceRank(first.precedence);
  const input: SelectionInput<C> = {
    best: [first, ...rest.filter((c) => precedenceRank(c.precedence) === bestRank)],
    random: chance.random,
    stickyId: chance.stickyId,
  };
  switch (strategy) {
    case "smartrouting":
      return { chosen: first };
    case "weighted":
      return { chosen: weighted(input) };
    case "random":
      return { chosen: random(input) };
    case "sticky":
      return sticky(input);
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
  | { readonly ok: true; readonly terminator: TerminatorRecord; readonly path: Path; readonly stickyId?: string }
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
  if (!isTerminatorStrategy(service.terminatorStrategy)) {
    const message = `service ${service.id} asks for the unknown terminator strategy "${service.terminatorStrategy}"`;
    return { ok: false, cause: CircuitFailureCause.InvalidStrategy, message };
  }
  if (terminators.length === 0) {
    const message = `service ${service.id} has no terminators`;
    return { ok: false, cause: CircuitFailureCause.NoTerminators, message };
  }
  const ofInstance = terminators.filter((t) => t.instanceId === instanceId);
  if (ofInstance.length === 0) {
    const message = `service ${service.id} has no terminators for instanceId ${instanceId}`;
    return { ok: false, cause: CircuitFailureCause.NoTerminators, message };
  }
  const online = ofInstance.filter((t) => isConnected(t.routerId));
  if (online.length === 0) {
    const message = `service ${service.id} has no online terminators for instanceId ${instanceId}`;
    return { ok: false, cause: CircuitFailureCause.NoOnlineTerminators, message };
  }
  const candidates = online.flatMap((terminator) => {
    const pathCost = paths.cost(request.from, terminator.routerId);
    if (pathCost === undefined) return [];
    const { id, precedence, cost: staticCost } = terminator;
    return [
      { id, precedence, terminator, cost: biasedCost({ precedence, staticCost, dynamicCost: costs.of(id), pathCost }) },
    ];
  });
  const selection = selectTerminator(service.terminatorStrategy, candidates, { random, stickyId: request.stickyId });
  const terminator = selection?.chosen.terminator;
  const path = terminator === undefined ? undefined : paths.path(request.from, terminator.routerId);
  if (selection === undefined || terminator === undefined || path === undefined) {
    const message = `no path from router ${request.from} to a terminator of service ${service.id}`;
    return { ok: false, cause: CircuitFailureCause.NoPath, message };
  }
  return {
    ok: true,
    terminator,
    path,
    ...(selection.stickyId === undefined ? {} : { stickyId: selection.stickyId }),
  };
}
