import type { RouterConfig } from "@sallyport/router-config";
import { InspectionKey } from "@sallyport/wire";
import type { InspectionRegistry } from "./control/inspection-registry.ts";
import type { EdgeListener } from "./edge/edge-listener.ts";
import type { Circuit, Destination } from "./forwarder/circuit.ts";
import type { Forwarder } from "./forwarder/forwarder.ts";
import type { LinkManager } from "./link/link-manager.ts";
import type { MetricsReporter } from "./metrics/metrics-reporter.ts";

export interface InspectedParts {
  readonly config: RouterConfig;
  readonly links: LinkManager;
  readonly forwarder: Forwarder;
  readonly reporter: MetricsReporter;
  readonly edge: () => EdgeListener | undefined;
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

/** Links and the wishes for links, as operators are shown them. */
export function inspectLinks(manager: LinkManager): Record<string, unknown> {
  return {
    links: manager.links().map((link) => ({
      id: link.id,
      iteration: link.iteration,
      key: link.key,
      split: link.form === "split",
      protocol: link.protocol,
      dialAddress: link.dialAddress,
      dest: link.peerId,
      destVersion: link.peerVersion,
      dialed: link.isDialed,
      underlays: countBy(link.connections().map((connection) => connection.type)),
      connections: link
        .connections()
        .map(({ type, localAddr, remoteAddr }) => ({ Type: type, Source: localAddr, Dest: remoteAddr })),
      connStateIteration: link.stateIteration,
      latencyNs: Math.round(link.latency.mean),
    })),
    destinations: manager.peers().map((peer) => ({
      id: peer.id,
      version: peer.version,
      healthy: peer.isHealthy,
      unhealthySince: peer.unhealthySince === undefined ? undefined : wallTime(peer.unhealthySince),
      linkStates: manager
        .states()
        .filter((state) => state.peerId === peer.id)
        .map((state) => ({
          id: state.linkId,
          key: state.key,
          status: state.status,
          dialAttempts: state.iteration,
          connectedCount: state.connectedCount,
          retryDelay: `${Math.round(state.retryDelay)}ms`,
          nextDial: wallTime(state.nextDial),
          targetAddress: state.listener.address,
          targetGroups: state.listener.groups,
          targetBinding: state.listener.localBinding,
        })),
    })),
    errors: null,
  };
}

/** A time of `performance.now()` as people read it. */
function wallTime(steady: number): string {
  return new Date(Date.now() + steady - performance.now()).toISOString();
}

function countBy(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

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

/** The configuration for inspection: without private keys, passwords and inline PEM. */
export function redacted(config: RouterConfig): unknown {
  return JSON.parse(
    JSON.stringify(config, (key, value: unknown) => {
      if (typeof value !== "string") return value;
      const isSecret = key === "password" || value.includes("-----BEGIN") || value.startsWith("pem:");
      return isSecret ? "(not shown)" : value;
    }),
  );
}
