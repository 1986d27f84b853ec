import type { ctrlPb } from "@sallyport/wire";
import type { RouterAlert } from "../fabric-events.ts";

/** Of one message, and of one alert: details, related entities, characters of a text. */
const MAX_ALERTS = 100;
const MAX_ALERT_ENTRIES = 100;
const MAX_ALERT_TEXT = 4_096;
/** Of one message, which becomes events that operators store. */
export const MAX_ALERTS_BYTES = 65_536;
/** Messages of one router. */
const MAX_ALERT_MESSAGES_PER_SECOND = 10;

/** How routers name themselves, and the identity of their tunneler, which has the same id. */
const SELF = "self";
const TUNNELER = "ert";

/**
 * What a router wants an operator to see, with the router's id where it speaks of itself. A router reports for itself alone.
 * Source: docs/protocol/fabric.md, "Alerts".
 */
export function routerAlerts(routerId: string, { alerts }: ctrlPb.Alerts): RouterAlert[] {
  return alerts.slice(0, MAX_ALERTS).map((alert) => {
    const at = new Date(Number(alert.timestamp));
    const related = Object.entries(alert.relatedEntities).slice(0, MAX_ALERT_ENTRIES);
    const relatedEntities: Record<string, string> = {};
    for (const [type, id] of related) {
      if (type !== SELF) relatedEntities[short(type)] = short(id);
      else if (id === TUNNELER) relatedEntities.identity = routerId;
    }
    if (alert.relatedEntities[SELF] !== undefined) relatedEntities.router = routerId;
    return {
      at: Number.isFinite(at.getTime()) ? at : new Date(),
      sourceType: "router",
      sourceId: routerId,
      severity: short(alert.severity),
      message: short(alert.message),
      details: alert.details.slice(0, MAX_ALERT_ENTRIES).map(short),
      relatedEntities,
    };
  });
}

/** How often a router may send alerts. Times are those of `performance.now()`. */
export class AlertLimit {
  #since = Number.NEGATIVE_INFINITY;
  #count = 0;

  allows(now: number): boolean {
    if (now - this.#since >= 1_000) {
      this.#since = now;
      this.#count = 0;
    }
    this.#count += 1;
    return this.#count <= MAX_ALERT_MESSAGES_PER_SECOND;
  }
}

function short(text: string): string {
  return text.slice(0, MAX_ALERT_TEXT);
}
