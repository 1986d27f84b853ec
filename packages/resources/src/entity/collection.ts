import { ApiError, listAll, type ManagementClient } from "@sallyport/api/client";
import { OWNER_TAGS, type Owner, ownerFilter } from "./ownership.ts";
import type { EntityBody, FoundEntity } from "./plan.ts";
import { RequestBatch } from "./request-batch.ts";

interface PageQuery {
  readonly limit: number;
  readonly offset: number;
  readonly filter?: string;
}

interface Call {
  readonly signal?: AbortSignal;
  /** Of a condition, or to be told what one needs. */
  readonly headers?: Readonly<Record<string, string>>;
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
  detail(
    client: ManagementClient,
    id: string,
    call: Call,
  ): Promise<{ readonly data: Found; readonly headers: Readonly<Record<string, string | undefined>> }>;
  /** Gives the id. */
  create(client: ManagementClient, body: EntityBody<Fields>, call: Call): Promise<string>;
  /** `found` has what a replacement must not take away. */
  replace(client: ManagementClient, found: Found, body: EntityBody<Fields>, call: Call): Promise<unknown>;
  /** The fields of an entity as it is, for a replacement that changes none of them. */
  fieldsOf(found: Found): Fields;
  delete(client: ManagementClient, id: string, call: Call): Promise<unknown>;
}

/** The API's shapes are written by hand on both sides: lists that are read only here may be written there. */
type Writable<T> = T extends readonly (infer Item)[]
  ? Writable<Item>[]
  : T extends object
    ? { -readonly [Key in keyof T]: Writable<T[Key]> }
    : T;
export const writable = <T>(value: T): Writable<T> => value as Writable<T>;

/** Which entities stand for a resource when no id is known: those with the owner's tag, and those of the name. */
interface Wanted {
  readonly owner: Owner;
  readonly name: string;
}

type Reading = Pick<Collection<never, FoundEntity>, "list" | "detail">;

/**
 * Reads the entities of one collection for all resources of a kind: what is asked for while another answer is awaited becomes one list
 * (docs/operator/entities.md, "How much is asked"). Every answer is of a moment after its question.
 */
export class EntityReader<Found extends FoundEntity> {
  readonly #collection: Reading;
  readonly #byId = new WeakMap<ManagementClient, RequestBatch<string, Found | undefined>>();
  readonly #byOwner = new WeakMap<ManagementClient, RequestBatch<Wanted, readonly Found[]>>();

  constructor(collection: Pick<Collection<never, Found>, "list" | "detail">) {
    this.#collection = collection as Reading;
  }

  /** Undefined when there is none. */
  async byId(client: ManagementClient, id: string, signal: AbortSignal): Promise<Found | undefined> {
    let batch = this.#byId.get(client);
    if (batch === undefined) {
      batch = new RequestBatch({
        one: (id) => this.#detail(client, id),
        many: (ids) => this.#details(client, ids),
        lengthOf: (id) => id.length,
      });
      this.#byId.set(client, batch);
    }
    return await batch.ask(id, signal);
  }

  /** Those that carry the owner's tag, and those that have the name; perhaps others, too. */
  async byOwnerOrName(client: ManagementClient, wanted: Wanted, signal: AbortSignal): Promise<readonly Found[]> {
    let batch = this.#byOwner.get(client);
    if (batch === undefined) {
      batch = new RequestBatch<Wanted, readonly Found[]>({
        one: ({ owner, name }) => this.#listed(client, `(${ownerFilter(owner)}) or name = ${JSON.stringify(name)}`),
        many: async (all) => {
          const found = await this.#listed(client, filterOf(all));
          return all.map(({ owner, name }) =>
            found.filter((entity) => entity.name === name || entity.tags?.[OWNER_TAGS.uid] === owner.uid),
          );
        },
        lengthOf: ({ owner, name }) => owner.uid.length + encodeURIComponent(name).length,
      });
      this.#byOwner.set(client, batch);
    }
    return await batch.ask(wanted, signal);
  }

  /** Those that carry the owner's tag: asked for seldom, and alone. */
  async byOwner(client: ManagementClient, owner: Owner, signal: AbortSignal): Promise<readonly Found[]> {
    return await this.#listed(client, ownerFilter(owner), signal);
  }

  async #detail(client: ManagementClient, id: string): Promise<Found | undefined> {
    try {
      return (await this.#collection.detail(client, id, {})).data as Found;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  async #details(client: ManagementClient, ids: readonly string[]): Promise<(Found | undefined)[]> {
    const found = await this.#listed(client, `id in ${listOf(ids)}`);
    const byId = new Map(found.map((entity) => [entity.id, entity]));
    return ids.map((id) => byId.get(id));
  }

  async #listed(client: ManagementClient, filter: string, signal?: AbortSignal): Promise<Found[]> {
    const call = signal === undefined ? {} : { signal };
    return (await listAll((query) => this.#collection.list(client, { ...query, filter }, call))) as Found[];
  }
}

function filterOf(all: readonly Wanted[]): string {
  const uids = listOf(all.map(({ owner }) => owner.uid));
  return `tags.${OWNER_TAGS.uid} in ${uids} or name in ${listOf(all.map(({ name }) => name))}`;
}

const listOf = (texts: readonly string[]): string => JSON.stringify([...new Set(texts)]);
