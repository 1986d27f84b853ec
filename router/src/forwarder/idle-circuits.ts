import type { Circuit } from "./circuit.ts";
import type { LocalEnd } from "./local-end.ts";

/** Circuits of one controller that were idle, for a confirmation (docs/protocol/data-path.md, "Idle circuits"). */
export interface IdleCircuits {
  readonly controllerId: string;
  /** Milliseconds without a frame, by circuit id. */
  readonly idle: ReadonlyMap<string, number>;
}

/** The circuits that had no frame for longer than `timeoutMs`, by their controllers. */
export function idleCircuits(circuits: Iterable<Circuit>, timeoutMs: number, now: number): IdleCircuits[] {
  const byController = new Map<string, Map<string, number>>();
  for (const circuit of circuits) {
    const idle = now - circuit.lastActivity;
    if (idle <= timeoutMs) continue;
    const ids = byController.get(circuit.controllerId) ?? new Map<string, number>();
    byController.set(circuit.controllerId, ids.set(circuit.id, idle));
  }
  return [...byController].map(([controllerId, idle]) => ({ controllerId, idle }));
}

/** Whether none of the ends received anything for `quietMs`, counted from `since` at the earliest. */
export function areQuiet(ends: Iterable<LocalEnd>, quietMs: number, since: number, now: number): boolean {
  for (const end of ends) if (now - Math.max(end.lastReceived, since) < quietMs) return false;
  return true;
}
