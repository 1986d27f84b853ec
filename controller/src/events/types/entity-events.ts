import type { EventHeader } from "./event-header.ts";

/** A stored entity changed. Each change gives two events with one `eventId`: what happened, and `committed`; both after the commit. */
export interface EntityChangeEvent extends EventHeader<"entityChange"> {
  readonly eventId: string;
  readonly eventType: "created" | "updated" | "deleted" | "committed";
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Collection of the entity, for example `services`. */
  readonly entityType: string;
  readonly isParentEvent: boolean;
  /** What is known of the state before, null when nothing is; never holds a secret. */
  readonly initialState?: Readonly<Record<string, unknown>> | null;
  /** The state after, null when the entity is gone; never holds a secret. */
  readonly finalState?: Readonly<Record<string, unknown>> | null;
}

/** How many entities of each kind there are; at the interval of the subscription. */
export interface EntityCountEvent extends EventHeader<"entityCount"> {
  readonly counts: Readonly<Record<string, number>>;
  /** Why there are no counts; empty otherwise. */
  readonly error: string;
}

/** The set of controllers changed. A single controller never emits it, but subscriptions may name it. */
export interface ClusterEvent extends EventHeader<"cluster"> {
  readonly eventType: string;
  readonly index?: number;
  readonly peers?: readonly object[];
  readonly leaderId?: string;
}
