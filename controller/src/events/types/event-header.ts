/** Kinds of events by the name they are subscribed under and carry as `namespace`. Source: docs/events.md. */
export const EVENT_NAMESPACES = [
  "apiSession",
  "authentication",
  "circuit",
  "cluster",
  "connect",
  "entityChange",
  "entityCount",
  "link",
  "metrics",
  "router",
  "sdk",
  "service",
  "session",
  "terminator",
  "usage",
] as const;
export type EventNamespace = (typeof EVENT_NAMESPACES)[number];

/** Older names that subscriptions may use. Events delivered for such a subscription carry `namespace` as given here. */
export const OLD_NAMES: Readonly<Record<string, { readonly type: EventNamespace; readonly namespace: string }>> = {
  "edge.apiSessions": { type: "apiSession", namespace: "edge.apiSessions" },
  "edge.authentications": { type: "authentication", namespace: "edge.authentications" },
  "edge.entityCounts": { type: "entityCount", namespace: "edge.entityCounts" },
  "edge.sessions": { type: "session", namespace: "edge.sessions" },
  "fabric.circuits": { type: "circuit", namespace: "fabric.circuits" },
  "fabric.links": { type: "link", namespace: "fabric.links" },
  "fabric.routers": { type: "router", namespace: "fabric.routers" },
  "fabric.terminators": { type: "terminator", namespace: "fabric.terminators" },
  "fabric.usage": { type: "usage", namespace: "fabric.usage" },
  services: { type: "service", namespace: "service.events" },
};

/** What every event begins with. The names of an event's fields are those that reach consumers. */
export interface EventHeader<N extends EventNamespace> {
  readonly namespace: N;
  /** Id of the controller that saw it happen. */
  readonly event_src_id: string;
  /** RFC 3339, UTC. */
  readonly timestamp: string;
}
