import { type Logger, TraceChannel } from "@sallyport/wire";
import { type EmitEvent, eventFields } from "../fabric-events.ts";

const CHANNELS = {
  "circuit-created": TraceChannel.All,
  "circuit-rerouted": TraceChannel.SelectPath,
  "circuit-removed": TraceChannel.EstablishPath,
};

/** The trace of an identity; undefined when it is not traced (any more). */
export type TraceOf = (identityId: string) => CircuitTrace | undefined;

export interface CircuitTrace {
  readonly traceId: string;
  /** Bits of `TraceChannel`: which of its channels are traced. */
  readonly channelMask: number;
}

/**
 * Logs the circuits of traced identities with the trace's id: the chosen path and the others (`SelectPath`), then established, failed and ended
 * (`EstablishPath`).
 */
export function circuitTraces(traceOf: TraceOf, log: Logger): EmitEvent {
  const traced = (identityId: string, channels: number): CircuitTrace | undefined => {
    const trace = traceOf(identityId);
    return trace !== undefined && (trace.channelMask & channels) !== 0 ? trace : undefined;
  };
  return (event) => {
    switch (event.kind) {
      case "circuit-created":
      case "circuit-rerouted":
      case "circuit-removed": {
        const trace = traced(event.circuit.clientId, CHANNELS[event.kind]);
        if (trace === undefined) return;
        const { links, ingressId, egressId } = event.circuit.route;
        log.info({ traceId: trace.traceId, ...eventFields(event), links, ingressId, egressId }, `traced ${event.kind}`);
        return;
      }
      case "circuit-failed": {
        const trace = traced(event.clientId, TraceChannel.EstablishPath);
        if (trace !== undefined) log.info({ traceId: trace.traceId, ...eventFields(event) }, `traced ${event.kind}`);
        return;
      }
      default:
    }
  };
}
