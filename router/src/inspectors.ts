import type { RouterConfig } from "@sallyport/router-config";
import { InspectionKey } from "@sallyport/wire";
import { redacted } from "./config/redacted.ts";
import type { InspectionRegistry } from "./control/inspection-registry.ts";
import type { Edge } from "./edge/edge-listener.ts";
import type { Circuit, Destination } from "./forwarder/circuit.ts";
import type { Forwarder } from "./forwarder/forwarder.ts";
import { inspectLinks } from "./link/link-inspection.ts";
import type { LinkManager } from "./link/link-manager.ts";
import type { MetricsReporter } from "./metrics/metrics-reporter.ts";

export interface InspectedParts {
  readonly config: RouterConfig;
  readonly links: LinkManager;
  readonly forwarder: Forwarder;
  readonly reporter: MetricsReporter;
  readonly edge: () => Edge | undefined;
}

/** What the kinds of destinations are called by who asks. */
const KINDS: Readonly<Record<Destination["kind"], string>> = { link: "link", xgress: "xgress", sdk: "xg-edge-fwd" };

/** What operators may ask the running router about (docs/protocol/control.md, "Inspect"). */
export function inspectors(inspection: InspectionRegistry, o: InspectedParts): void {
  const { config, links, forwarder, reporter } = o;
  inspection.register(InspectionKey.Links, () => inspectLinks(links));
  inspection.register("config", () => redacted(config));
  inspection.register("metrics*", () => reporter.message(Date.now()));
  inspection.register(InspectionKey.RouterCircuits, () => ({
    circuits: Object.fromEntries([...forwarder.circuits()].map((circuit) => [circuit.id, summary(circuit, forwarder)])),
  }));
  inspection.register(InspectionKey.CircuitRoutes, () => circuitRoutes(forwarder));
  inspection.register("router-edge-circuits", () => edgeCircuits(o, false));
  inspection.register("router-sdk-circuits", () => edgeCircuits(o, true));
  const circuit = (name: string) => forwarder.inspectCircuit(name.slice(name.indexOf(":") + 1));
  inspection.register("circuit:*", circuit);
  inspection.register("circuitandstacks:*", circuit);
}

/** Every circuit as a restarted controller needs it to know it again (docs/protocol/fabric.md, "Restart"). */
function circuitRoutes(forwarder: Forwarder): object {
  const ends = new Map<string, { initiator?: string; terminator?: string }>();
  for (const { circuitId, address, side } of forwarder.ends()) {
    ends.set(circuitId, { ...ends.get(circuitId), [side]: address });
  }
  const circuits = [...forwarder.circuits()].map(({ id, controllerId, tags, forwards }) => ({
    ...{ id, ctrlId: controllerId, tags, ...ends.get(id) },
    forwards: forwards.map(({ source, target }) => [source, target]),
  }));
  return { circuits };
}

function summary(circuit: Circuit, forwarder: Forwarder) {
  const destinations = forwarder.destinations();
  const addresses = circuit.forwards.flatMap(({ source, target }) => [source, target]);
  const kindOf = (address: string): string => {
    const destination = destinations.get(address);
    return destination === undefined ? "missing" : KINDS[destination.kind];
  };
  return {
    id: circuit.id,
    timeSinceActivity: `${Math.round(performance.now() - circuit.lastActivity)}ms`,
    ctrlId: circuit.controllerId,
    routes: Object.fromEntries(circuit.forwards.map(({ source, target }) => [source, target])),
    destinations: Object.fromEntries(addresses.map((address) => [address, kindOf(address)])),
  };
}

/** Circuits of SDKs: those whose flow control is done here by circuit and address, those of the SDKs' own by identity and connection. */
function edgeCircuits({ edge, forwarder }: InspectedParts, isBySdk: boolean): object {
  const ends = [...forwarder.ends()];
  const circuits: Record<string, unknown> = {};
  for (const sdk of edge()?.sdks() ?? []) {
    for (const { circuitId, connId } of sdk.connections()) {
      for (const end of ends) {
        if (end.circuitId !== circuitId || (end.kind === "sdk") !== isBySdk) continue;
        const { identityId } = sdk.session;
        const key = isBySdk ? `${identityId}/${connId}/${circuitId}` : `${circuitId}/${end.address}`;
        circuits[key] = { circuitId, identityId, connId, ...end.inspect() };
      }
    }
  }
  return { circuits, errors: null };
}
