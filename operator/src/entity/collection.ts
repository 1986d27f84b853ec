import type { ManagementClient } from "../controller-client/connection.ts";
import type { Tags } from "./ownership.ts";
import type { EntityBody, FoundEntity } from "./plan.ts";

export interface PageQuery {
  readonly limit: number;
  readonly offset: number;
  readonly filter?: string;
}

/** What a change is made from: only what differs, and everything. */
export interface EntityChange<Fields, Found> {
  readonly found: Found;
  readonly body: Partial<EntityBody<Fields>>;
  readonly whole: EntityBody<Fields>;
}

interface Call {
  readonly signal?: AbortSignal;
}

/**
 * The calls of one collection of the Management API. Entities are changed by replacement: servers of the family drop fields of a partial
 * change (checks of a policy, the signer of a process), refuse it (configs without data), and never take the last tag away by one.
 */
export interface Collection<Fields, Found extends FoundEntity> {
  list(
    client: ManagementClient,
    query: PageQuery,
    call: Call,
  ): Promise<{ data: readonly Found[]; meta: { pagination: { totalCount: number } } }>;
  detail(client: ManagementClient, id: string, call: Call): Promise<Found>;
  /** Gives the id. */
  create(client: ManagementClient, body: EntityBody<Fields>, call: Call): Promise<string>;
  change(client: ManagementClient, change: EntityChange<Fields, Found>, call: Call): Promise<unknown>;
  /** Replaces all tags and nothing else. */
  retag(client: ManagementClient, found: Found, tags: Tags, call: Call): Promise<unknown>;
  delete(client: ManagementClient, id: string, call: Call): Promise<unknown>;
}

/** The API's shapes are written by hand on both sides: lists that are read only here may be written there. */
type Writable<T> = T extends readonly (infer Item)[]
  ? Writable<Item>[]
  : T extends object
    ? { -readonly [Key in keyof T]: Writable<T[Key]> }
    : T;
export const writable = <T>(value: T): Writable<T> => value as Writable<T>;
