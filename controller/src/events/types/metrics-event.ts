import type { EventHeader } from "./event-header.ts";

/** One metric out of a router's report. */
export interface MetricsEvent extends EventHeader<"metrics"> {
  readonly version: 3;
  readonly metric_type: "intValue" | "floatValue" | "meter" | "histogram" | "timer";
  /** Router that measured. */
  readonly source_id: string;
  /** What it measured, where the metric is about one thing: a link, a control channel. */
  readonly source_entity_id?: string;
  readonly metric: string;
  readonly metrics: Readonly<Record<string, number>>;
  readonly tags?: Readonly<Record<string, string>>;
  /** The same for all metrics of one report. */
  readonly source_event_id: string;
}
