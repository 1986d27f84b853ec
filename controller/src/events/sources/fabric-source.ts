import type { Circuit } from "../../fabric/circuits/circuit.ts";
import type { FabricEvent, RouterAlert } from "../../fabric/fabric-events.ts";
import { type Link, linkCost } from "../../fabric/links/link-table.ts";
import type { CircuitEvent, CircuitEventPath, EventBody, EventSink, LinkEvent } from "../event.ts";
import type { ServiceCounters } from "./counts.ts";
import { emitMetrics, emitUsage, type LinkEnds } from "./router-reports.ts";
import type { TerminatorSource } from "./terminator-source.ts";

const NS_PER_MS = 1_000_000;

/** What the source asks of the fabric. */
export interface FabricFacts {
  onEvent(listener: (event: FabricEvent) => void): () => void;
  pathCost(circuit: Circuit): number;
  links(): readonly LinkEnds[];
  onlineRouterIds(): readonly string[];
}

export interface FabricSourceParts {
  readonly controllerId: string;
  readonly fabric: FabricFacts;
  readonly sink: EventSink;
  /** Is it this controller that tells what every controller of the network sees? Default: yes. */
  readonly isTeller?: () => boolean;
  /** The time of circuits, in milliseconds. */
  readonly now: () => number;
  readonly services: ServiceCounters;
  readonly terminators: Pick<TerminatorSource, "routerChanged">;
}

const LINK_EVENT_TYPES = {
  "link-known": "routerLinkKnown",
  "link-faulted": "fault",
  "link-duplicate": "duplicate",
  "link-connections-changed": "connectionsChanged",
} as const;

/** Makes events of what happens in the fabric. Returns the way to stop. */
export function startFabricSource(parts: FabricSourceParts): () => void {
  return parts.fabric.onEvent((event) => emitFabricEvent(parts, event));
}

/** What every controller sees, because routers report it to all of them. A report of metrics says itself which of them is to tell it. */
const SEEN_BY_ALL: ReadonlySet<FabricEvent["kind"]> = new Set<FabricEvent["kind"]>([
  "router-offline",
  "link-connected",
  "link-known",
  "link-faulted",
  "link-duplicate",
  "link-connections-changed",
  "identities-changed",
  "identities-connected",
]);

function emitFabricEvent(parts: FabricSourceParts, event: FabricEvent): void {
  if (SEEN_BY_ALL.has(event.kind) && parts.isTeller?.() === false) return;
  const { sink, services, fabric } = parts;
  switch (event.kind) {
    case "router-online":
    case "router-offline":
      emitRouter(parts, event);
      return;
    case "circuit-created":
      services.count("service.dial.success", event.circuit.serviceId, event.circuit.terminatorId);
      emitCircuit(parts, event.circuit, "created", { creation_timespan: event.timespanMs * NS_PER_MS });
      return;
    case "circuit-rerouted":
      emitCircuit(parts, event.circuit, "pathUpdated");
      return;
    case "circuit-removed": {
      const duration = Math.max(0, parts.now() - event.circuit.createdAt.getTime()) * NS_PER_MS;
      emitCircuit(parts, event.circuit, "deleted", { duration });
      return;
    }
    case "circuit-failed":
      services.circuitFailed(event);
      if (sink.wants("circuit")) sink.emit(failedBody(event));
      return;
    case "dial-failed":
      services.dialFailed(event);
      return;
    case "link-connected":
      if (!sink.wants("link")) return;
      sink.emit(linkBody(event.link, "routerLinkNew"));
      sink.emit(linkBody(event.link, destinationState(fabric, event.link)));
      return;
    case "link-known":
    case "link-faulted":
    case "link-duplicate":
    case "link-connections-changed":
      if (sink.wants("link")) sink.emit(linkBody(event.link, LINK_EVENT_TYPES[event.kind]));
      return;
    case "identities-changed":
      emitIdentities(sink, event);
      return;
    case "identities-connected":
      emitConnections(sink, event);
      return;
    case "router-alert":
      if (sink.wants("alert")) sink.emit(alertBody(event.alert));
      return;
    case "router-metrics":
      if (event.metrics.doNotPropagate) return;
      if (sink.wants("usage")) emitUsage(sink, event.metrics);
      if (sink.wants("metrics")) emitMetrics(sink, event.metrics, fabric.links());
      return;
    case "encryption-missing":
    case "health-check":
    case "router-trace":
    case "control-message":
      return;
  }
}

type EventOfKind<K extends FabricEvent["kind"]> = Extract<FabricEvent, { readonly kind: K }>;

function emitRouter(
  { sink, terminators, controllerId, isTeller = () => true }: FabricSourceParts,
  event: EventOfKind<"router-online" | "router-offline">,
): void {
  const { kind, routerId } = event;
  const isOnline = kind === "router-online";
  const isTold = isTeller();
  if (isTold) sink.emit({ namespace: "router", event_type: kind, router_id: routerId, router_online: isOnline });
  // Each controller has a connection of its own.
  if (isOnline) {
    sink.emit({
      namespace: "connect",
      src_type: "router",
      src_id: routerId,
      src_addr: event.sourceAddress,
      dst_type: "ctrl",
      dst_id: controllerId,
      dst_addr: event.destinationAddress,
    });
  }
  if (isTold && sink.wants("terminator")) terminators.routerChanged(routerId, kind);
}

function emitIdentities(sink: EventSink, event: EventOfKind<"identities-changed">): void {
  if (!sink.wants("sdk")) return;
  for (const id of event.online) sink.emit({ namespace: "sdk", event_type: "sdk-online", identity_id: id });
  for (const id of event.offline) sink.emit({ namespace: "sdk", event_type: "sdk-offline", identity_id: id });
  for (const id of event.unknown) sink.emit({ namespace: "sdk", event_type: "sdk-status-unknown", identity_id: id });
}

function emitConnections(sink: EventSink, { connections, routerId }: EventOfKind<"identities-connected">): void {
  if (!sink.wants("connect")) return;
  for (const { identityId, at, sourceAddress, destinationAddress } of connections) {
    sink.emit({
      namespace: "connect",
      timestamp: (Number.isFinite(at.getTime()) ? at : new Date()).toISOString(),
      src_type: "identity",
      src_id: identityId,
      src_addr: sourceAddress,
      dst_type: "router",
      dst_id: routerId,
      dst_addr: destinationAddress,
    });
  }
}

function alertBody({ at, sourceType, sourceId, severity, message, details, relatedEntities }: RouterAlert): EventBody {
  return {
    namespace: "alert",
    timestamp: at.toISOString(),
    alert_source_type: sourceType,
    alert_source_id: sourceId,
    ...{ severity, message, details },
    related_entities: relatedEntities,
  };
}

function emitCircuit(
  { sink, fabric }: FabricSourceParts,
  circuit: Circuit,
  type: CircuitEvent["event_type"],
  { creation_timespan, duration }: Pick<CircuitEvent, "creation_timespan" | "duration"> = {},
): void {
  if (!sink.wants("circuit")) return;
  const cost = fabric.pathCost(circuit);
  sink.emit({
    namespace: "circuit",
    version: 2,
    event_type: type,
    circuit_id: circuit.id,
    client_id: circuit.clientId,
    service_id: circuit.serviceId,
    terminator_id: circuit.terminatorId,
    instance_id: instanceOf(circuit),
    path: pathOf(circuit),
    link_count: circuit.route.links.length,
    tags: circuit.tags,
    ...(creation_timespan !== undefined && { creation_timespan }),
    ...(Number.isFinite(cost) && { path_cost: cost }),
    ...(duration !== undefined && { duration }),
  });
}

function pathOf({ route, addresses }: Circuit): CircuitEventPath {
  const { initiatorLocal, initiatorRemote, terminatorLocal, terminatorRemote } = addresses;
  return {
    nodes: route.routers,
    links: route.links,
    ingress_id: route.ingressId,
    egress_id: route.egressId,
    ...(initiatorLocal && { initiator_local_addr: initiatorLocal }),
    ...(initiatorRemote && { initiator_remote_addr: initiatorRemote }),
    ...(terminatorLocal && { terminator_local_addr: terminatorLocal }),
    ...(terminatorRemote && { terminator_remote_addr: terminatorRemote }),
  };
}

/** The tag names the service as it was asked for: `instance@service`. */
function instanceOf({ tags, serviceId }: Circuit): string {
  const asked = tags.serviceId ?? "";
  return asked.endsWith(`@${serviceId}`) ? asked.slice(0, -serviceId.length - 1) : "";
}

function failedBody(event: EventOfKind<"circuit-failed">): EventBody {
  return {
    namespace: "circuit",
    version: 2,
    event_type: "failed",
    circuit_id: event.circuitId,
    client_id: event.clientId,
    service_id: event.serviceId,
    terminator_id: event.terminatorId,
    instance_id: event.instanceId,
    creation_timespan: event.timespanMs * NS_PER_MS,
    path: { nodes: null, links: null, ingress_id: "", egress_id: "" },
    link_count: 0,
    failure_cause: event.cause,
    tags: null,
  };
}

function destinationState(fabric: FabricFacts, link: Link): LinkEvent["event_type"] {
  return fabric.onlineRouterIds().includes(link.destination) ? "connected" : "routerLinkDisconnectedDest";
}

function linkBody(link: Link, type: LinkEvent["event_type"]): EventBody {
  return {
    namespace: "link",
    event_type: type,
    link_id: link.id,
    src_router_id: link.source,
    dst_router_id: link.destination,
    protocol: link.protocol,
    dial_address: link.dialAddress,
    cost: linkCost(link),
    connections: link.connectionState.connections.map(({ type: id, localAddress, remoteAddress }) => ({
      id,
      local_addr: localAddress,
      remote_addr: remoteAddress,
    })),
  };
}
