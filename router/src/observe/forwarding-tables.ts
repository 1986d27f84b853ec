import type { Forwarder } from "../forwarder/forwarder.ts";

/** What is forwarded where, for an operator: circuits with the way of each direction, then the destinations. */
export function forwardingTables(forwarder: Forwarder): string {
  const lines: string[] = [];
  const destinations = forwarder.destinations();
  const kindOf = (address: string): string => destinations.get(address)?.kind ?? "missing";
  for (const circuit of forwarder.circuits()) {
    lines.push(
      `circuit ${circuit.id} of controller ${circuit.controllerId}, idle ${Math.round(performance.now() - circuit.lastActivity)} ms`,
    );
    for (const { source, target } of circuit.forwards) {
      lines.push(`  ${source} (${kindOf(source)}) -> ${target} (${kindOf(target)})`);
    }
  }
  return [
    `circuits: ${forwarder.circuitIds().length}`,
    ...lines,
    `destinations: ${destinations.size}`,
    ...[...destinations.values()].map(({ address, kind }) => `  ${address} (${kind})`),
    "",
  ].join("\n");
}
