import type { Circuit } from "./circuit.ts";
import type { LocalEnd } from "./local-end.ts";

/** Details of a circuit for inspection (docs/protocol/control.md, "Inspect"). Durations are texts with a unit. */
export function circuitDetail(circuit: Circuit, ends: Iterable<LocalEnd>): Record<string, unknown> {
  return {
    circuitId: circuit.id,
    ctrlId: circuit.controllerId,
    timeSinceActivity: `${Math.round(performance.now() - circuit.lastActivity)}ms`,
    forwards: Object.fromEntries(circuit.forwards.map((f) => [f.source, f.target])),
    xgressDetails: Object.fromEntries([...ends].map((end) => [end.address, end.inspect()])),
    relatedEntities: {},
    errors: null,
  };
}
