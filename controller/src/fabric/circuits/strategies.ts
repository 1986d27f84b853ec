import type { PrecedenceName } from "@sallyport/wire";
import type { TerminatorStrategy } from "../ports.ts";
import { costWithinBand, precedenceRank } from "./costs.ts";

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
