/** What a network has of some kinds, each listed once: a thousand resources take a few requests. */
import { listAll, type ManagementClient } from "@sallyport/api/client";
import { mapLimit } from "@sallyport/async";
import { type FoundEntity, OWNER_TAGS, type Owner } from "@sallyport/resources";
import { EntityReader, type ReaderOf } from "@sallyport/resources/sync";
import { DECLARED_KINDS, type DeclaredKind } from "./declared-kinds.ts";
import { fileUid, markOf } from "./marks.ts";

const LISTS_AT_ONCE = 4;

export class NetworkState {
  readonly client: ManagementClient;
  readonly signal: AbortSignal;
  readonly #kinds = new Map<string, KindState>();
  #configTypes: ReadonlyMap<string, string> = new Map();
  #typeNames: ReadonlyMap<string, string> = new Map();

  constructor(client: ManagementClient, signal: AbortSignal) {
    this.client = client;
    this.signal = signal;
  }

  /** Lists kinds that are not listed yet. @throws ApiError, CommandError */
  async load(kinds: Iterable<string>): Promise<void> {
    const wanted = new Set(kinds);
    const missing = DECLARED_KINDS.filter(({ kind }) => wanted.has(kind) && !this.#kinds.has(kind));
    const call = { signal: this.signal };
    await mapLimit(missing, LISTS_AT_ONCE, async (kind) => {
      const entities = await listAll((query) => kind.collection.list(this.client, query, call));
      this.#kinds.set(kind.kind, new KindState(kind, entities));
      if (kind.kind !== "ServiceConfig") return;
      const types = await listAll((query) => this.client.listConfigTypes({ query }, call));
      this.#configTypes = new Map(types.map(({ id, name }) => [name, id]));
      this.#typeNames = new Map(types.map(({ id, name }) => [id, name]));
    });
  }

  /** @throws Error for a kind that was not loaded */
  of(kind: string): KindState {
    const found = this.#kinds.get(kind);
    if (found === undefined) throw new Error(`${kind} was not listed`);
    return found;
  }

  get loaded(): Iterable<KindState> {
    return this.#kinds.values();
  }

  /** What has this id, as far as its kind is listed. */
  nameOf(id: string): string | undefined {
    for (const kind of this.#kinds.values()) {
      const found = kind.get(id);
      if (found !== undefined) return found.name;
    }
    return this.#typeNames.get(id);
  }

  /** Ids of config types by name. */
  get configTypes(): ReadonlyMap<string, string> {
    return this.#configTypes;
  }
}

/** The entities of one kind, as they were listed until one was changed. */
export class KindState implements ReaderOf<FoundEntity> {
  readonly kind: DeclaredKind;
  readonly entities: readonly FoundEntity[];
  readonly #reader: EntityReader<FoundEntity>;
  readonly #byId: ReadonlyMap<string, FoundEntity>;
  readonly #byName: ReadonlyMap<string, FoundEntity>;
  readonly #byUid: ReadonlyMap<unknown, readonly FoundEntity[]>;
  /** Ids of those that are no longer as they were listed. */
  readonly #changed = new Set<string>();
  /** Names that another client has given away since. */
  readonly #outdated = new Set<string>();

  constructor(kind: DeclaredKind, entities: readonly FoundEntity[]) {
    this.kind = kind;
    this.entities = entities;
    this.#reader = new EntityReader(kind.collection);
    this.#byId = new Map(entities.map((entity) => [entity.id, entity]));
    this.#byName = new Map(entities.map((entity) => [entity.name, entity]));
    this.#byUid = Map.groupBy(entities, ({ tags }) => tags?.[OWNER_TAGS.uid]);
  }

  /** An entity is about to be changed: from now on the network is asked for it. */
  changed(id: string): void {
    this.#changed.add(id);
  }

  /** There is an entity of the name that was not there: from now on the network is asked for it. */
  outdated(name: string): void {
    this.#outdated.add(name);
  }

  named(name: string): FoundEntity | undefined {
    return this.#byName.get(name);
  }

  get(id: string): FoundEntity | undefined {
    return this.#byId.get(id);
  }

  /** Those that files of this name were applied to; of an EdgeRouter in the order of their ordinals. */
  appliedAs(namespace: string, name: string): readonly FoundEntity[] {
    return (this.#byUid.get(fileUid({ kind: this.kind.kind, namespace, name })) ?? []).toSorted(
      (left, right) => (markOf(left.tags)?.ordinal ?? 0) - (markOf(right.tags)?.ordinal ?? 0),
    );
  }

  async byId(client: ManagementClient, id: string, signal: AbortSignal): Promise<FoundEntity | undefined> {
    return this.#changed.has(id) ? await this.#reader.byId(client, id, signal) : this.#byId.get(id);
  }

  async byOwnerOrName(
    client: ManagementClient,
    wanted: { readonly owner: Owner; readonly name: string },
    signal: AbortSignal,
  ): Promise<readonly FoundEntity[]> {
    const named = this.#byName.get(wanted.name);
    const found = [...(this.#byUid.get(wanted.owner.uid) ?? []), ...(named === undefined ? [] : [named])];
    const isKnown = !this.#outdated.has(wanted.name) && !found.some(({ id }) => this.#changed.has(id));
    return isKnown ? found : await this.#reader.byOwnerOrName(client, wanted, signal);
  }

  async byOwner(client: ManagementClient, owner: Owner, signal: AbortSignal): Promise<readonly FoundEntity[]> {
    const found = this.#byUid.get(owner.uid) ?? [];
    return found.some(({ id }) => this.#changed.has(id)) ? await this.#reader.byOwner(client, owner, signal) : found;
  }
}
