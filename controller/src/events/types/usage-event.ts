import type { EventHeader } from "./event-header.ts";

interface UsageInterval extends EventHeader<"usage"> {
  /** Router that counted. */
  readonly source_id: string;
  readonly circuit_id: string;
  /** Seconds since 1970. */
  readonly interval_start_utc: number;
  /** Seconds. */
  readonly interval_length: number;
  /** Of the circuit: `clientId`, `hostId`, `serviceId`. */
  readonly tags: Readonly<Record<string, string>> | null;
}

/** Bytes of one counter of one circuit in one interval; for subscriptions of version 2. */
export interface UsageEventV2 extends UsageInterval {
  readonly version: 2;
  /** `usage.ingress.rx`, `usage.ingress.tx`, `usage.egress.rx`, … */
  readonly event_type: string;
  readonly usage: number;
}

/** Bytes of all counters of one circuit in one interval. */
export interface UsageEventV3 extends UsageInterval {
  readonly version: 3;
  /** `ingress.rx`, `ingress.tx`, `egress.rx`, `egress.tx`, `fabric.rx`, `fabric.tx`. */
  readonly usage: Readonly<Record<string, number>>;
}

export type UsageEvent = UsageEventV2 | UsageEventV3;
