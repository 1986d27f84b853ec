import { biasedCost, type DynamicCosts } from "../circuits/costs.ts";
import type { Path, PathFinder } from "../circuits/path.ts";
import { selectTerminator } from "../circuits/strategies.ts";
import { CircuitFailureCause } from "../fabric-events.ts";
import { type CircuitService, isTerminatorStrategy, type TerminatorRecord } from "../ports.ts";

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
