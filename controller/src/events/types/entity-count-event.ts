import type { EventHeader } from "./event-header.ts";

/** How many entities of each kind there are; at the interval of the subscription. */
export interface EntityCountEvent extends EventHeader<"entityCount"> {
  readonly counts: Readonly<Record<string, number>>;
  /** Why there are no counts; empty otherwise. */
  readonly error: string;
}
