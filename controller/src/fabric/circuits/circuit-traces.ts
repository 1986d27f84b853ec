import type { Logger } from "@sallyport/wire";
import { type EmitEvent, eventFields } from "../fabric-events.ts";

/** The trace of an identity; undefined when it is not traced (any more). */
export type TraceOf = (identityId: string) => { readonly traceId: string } | undefined;

/** Writes the life of a traced identity's circuits into the log: way chosen, established, moved, failed, ended; each line with the trace's id. */
export function circuitTraces(traceOf: TraceOf, log: Logger): EmitEvent {
  return (event) => {
    switch (event.kind) {
      case "circuit-created":
      case "circuit-rerouted":
      case "circuit-removed": {
        const trace = traceOf(event.circuit.clientId);
        if (trace === undefined) return;
        const { links, ingressId, egressId } = event.circuit.route;
        log.info({ traceId: trace.traceId, ...eventFields(event), links, ingressId, egressId }, `traced ${event.kind}`);
        return;
      }
      case "circuit-failed": {
        const trace = traceOf(event.clientId);
        if (trace !== undefined) log.info({ traceId: trace.traceId, ...eventFields(event) }, `traced ${event.kind}`);
        return;
      }
      default:
    }
  };
}
