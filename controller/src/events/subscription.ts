import { type EventSubscriptionConfig, eventSubscriptionSchema } from "@sallyport/controller-config";
import type { ControllerEvent } from "./types/event.ts";
import { EVENT_NAMESPACES, type EventNamespace, OLD_NAMES } from "./types/namespaces.ts";

/** What a subscriber asked for cannot be given; the message says what could. */
export class SubscriptionError extends Error {
  override readonly name = "SubscriptionError";
}

/** One wish of a subscriber, ready to be matched. */
export interface Subscription {
  readonly namespace: EventNamespace;
  /** `entityCount` only: how often, in milliseconds. */
  readonly intervalMs?: number;
  /** The event as this subscriber gets it; undefined when it does not. */
  shape(event: ControllerEvent): object | undefined;
}

/** Reads a subscription that came in as JSON. @throws SubscriptionError */
export function readSubscription(type: unknown, options: unknown): Subscription {
  if (options !== undefined && options !== null && (typeof options !== "object" || Array.isArray(options))) {
    throw new SubscriptionError(`options of the subscription to ${JSON.stringify(type)} are not an object`);
  }
  const parsed = eventSubscriptionSchema.safeParse({ ...(options as object | null | undefined), type });
  if (parsed.success) return compileSubscription(parsed.data);
  const problems = parsed.error.issues.map(
    (issue) => `${issue.path.join(".") || "options"}: expected ${issue.message}`,
  );
  throw new SubscriptionError(`the subscription to ${JSON.stringify(type)} cannot be made: ${problems.join("; ")}`);
}

export function compileSubscription(config: EventSubscriptionConfig): Subscription {
  const old = OLD_NAMES[config.type];
  const namespace = old?.type ?? EVENT_NAMESPACES.find((name) => name === config.type);
  if (namespace === undefined) throw new SubscriptionError(`there are no events of type ${config.type}`);
  const filter = filterOf(config);
  const shape = (event: ControllerEvent): object | undefined => {
    const kept = filter === undefined ? event : filter(event);
    return kept === undefined || old === undefined ? kept : { ...kept, namespace: old.namespace };
  };
  return "interval" in config ? { namespace, intervalMs: config.interval, shape } : { namespace, shape };
}

type Filter = (event: ControllerEvent) => ControllerEvent | undefined;

function filterOf(config: EventSubscriptionConfig): Filter | undefined {
  switch (config.type) {
    case "circuit":
    case "fabric.circuits": {
      const { include } = config;
      if (include === undefined) return undefined;
      return (event) => (event.namespace === "circuit" && include.includes(event.event_type) ? event : undefined);
    }
    case "entityChange": {
      const { include } = config;
      if (include === undefined) return undefined;
      return (event) => (event.namespace === "entityChange" && include.includes(event.entityType) ? event : undefined);
    }
    case "metrics":
      return metricsFilter(config.sourceFilter, config.metricFilter);
    case "usage":
    case "fabric.usage":
      return usageFilter(config.version, config.include);
    default:
      return undefined;
  }
}

function metricsFilter(source: RegExp | undefined, metric: RegExp | undefined): Filter | undefined {
  if (source === undefined && metric === undefined) return undefined;
  return (event) => {
    if (event.namespace !== "metrics" || source?.test(event.source_id) === false) return undefined;
    if (metric === undefined) return event;
    const kept = Object.entries(event.metrics).filter(([key]) =>
      metric.test(`${event.metric}.${key === "value" ? "" : key}`),
    );
    return kept.length === 0 ? undefined : { ...event, metrics: Object.fromEntries(kept) };
  };
}

function usageFilter(version: 2 | 3, include: readonly string[] | undefined): Filter {
  return (event) => {
    if (event.namespace !== "usage" || event.version !== version) return undefined;
    if (include === undefined) return event;
    if (event.version === 2) return include.includes(event.event_type.replace(/^usage\./, "")) ? event : undefined;
    const kept = Object.entries(event.usage).filter(([counter]) => include.includes(counter));
    return kept.length === 0 ? undefined : { ...event, usage: Object.fromEntries(kept) };
  };
}
