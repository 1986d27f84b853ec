import { type EventSubscriptionConfig, eventSubscriptionSchema } from "@sallyport/controller-config";
import { RE2JS, RE2JSException } from "re2js";
import { type ControllerEvent, EVENT_NAMESPACES, type EventNamespace, OLD_NAMES } from "./event.ts";

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
      return metricsFilter(linear(config.sourceFilter), linear(config.metricFilter));
    case "usage":
    case "fabric.usage":
      return usageFilter(config.version, config.include);
    default:
      return undefined;
  }
}

type Matches = (text: string) => boolean;

/** The expression, matched in linear time whatever it is. @throws SubscriptionError when it needs more than that */
function linear(expression: RegExp | undefined): Matches | undefined {
  if (expression === undefined) return undefined;
  try {
    const compiled = RE2JS.compile(expression.source);
    return (text) => compiled.matcher(text).find();
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    throw new SubscriptionError(`the regular expression ${expression.source} cannot be used: ${error.message}`);
  }
}

function metricsFilter(source: Matches | undefined, metric: Matches | undefined): Filter | undefined {
  if (source === undefined && metric === undefined) return undefined;
  return (event) => {
    if (event.namespace !== "metrics" || source?.(event.source_id) === false) return undefined;
    if (metric === undefined) return event;
    const kept = Object.entries(event.metrics).filter(([key]) =>
      metric(`${event.metric}.${key === "value" ? "" : key}`),
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
