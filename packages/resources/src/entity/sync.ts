import { ApiError, type ManagementClient } from "@sallyport/api/client";
import { type Collection, EntityReader } from "./collection.ts";
import { isOurs, type Owner, releasedTags } from "./ownership.ts";
import {
  type ConflictReason,
  type EntityKind,
  type EntityPlan,
  type EntityResource,
  type EntitySpec,
  type FoundBy,
  type FoundEntity,
  nameOf,
  type Observed,
  planEntity,
  type Surroundings,
} from "./plan.ts";
import type { MissingReason, MissingReference } from "./references.ts";

/** What the resource knows of its entity from before. */
export interface KnownEntity {
  /** `status.id`. */
  readonly id: string | undefined;
  /** The id was written while the resource only observed: the entity never was ours. */
  readonly wasObserved: boolean;
}

interface SyncOptions {
  readonly signal: AbortSignal;
  /** Called as soon as the id is known, and awaited before anything else is done: what is created must never be forgotten. */
  readonly onIdentified: (id: string) => Promise<void>;
}

/** Something worth telling people. */
interface SyncNote {
  readonly type: "Normal" | "Warning";
  readonly reason: "Created" | "Updated" | "Adopted" | "DeletedExternally";
  readonly note: string;
}

/** How the network and the resource stand to each other now. */
export type SyncResult<Found> = { readonly notes: readonly SyncNote[] } & (
  | {
      /** `synced`: the entity is as the spec wants. `observed`: we look only; `differences` are the fields that are not as wanted. */
      readonly state: "synced" | "observed";
      readonly id: string;
      /** As it was found, before a change. Undefined when it was made just now. */
      readonly found: Found | undefined;
      readonly differences: readonly string[];
      /** References that could not be taken into account. */
      readonly missing: readonly MissingReference[];
    }
  | { readonly state: "conflict"; readonly reason: ConflictReason; readonly message: string }
  | {
      readonly state: "waiting";
      readonly reason: MissingReason | "NotInNetwork";
      readonly message: string;
      readonly missing: readonly MissingReference[];
    }
);

/**
 * `gone`: the network has no entity of the resource any more. `released`: what was found stays and has no owner now, or never was ours.
 * `blocked`: others use it.
 */
export type RemovalResult =
  | { readonly state: "gone" | "released" }
  | { readonly state: "blocked"; readonly message: string };

/** How entities are found. */
export type ReaderOf<Found extends FoundEntity> = Pick<EntityReader<Found>, "byId" | "byOwnerOrName" | "byOwner">;

/** So many attempts: a change may lose the race with another client that changes or deletes the entity. */
const ATTEMPTS = 3;

/** Another client has changed the entity since it was looked at. */
class ChangedMeanwhile extends Error {
  override name = "ChangedMeanwhile";
}

/** An entity as it is now, and the call that changes only this version of it. Servers that name no version are asked without a condition. */
interface Current<Found> {
  readonly entity: Found;
  readonly change: { readonly signal: AbortSignal; readonly headers?: { readonly "if-match": string } };
}

/**
 * Keeps one entity of a network as its resource wants it. Safe to be ended at any point and begun again: an entity is found by the id in
 * the status, else by our tag, and only then by name.
 */
export class EntitySync<Spec extends EntitySpec, Fields extends object, Found extends FoundEntity, More> {
  readonly #kind: EntityKind<Spec, Fields, Found, More>;
  readonly #collection: Collection<Fields, Found>;
  readonly #reader: ReaderOf<Found>;

  /** @param reader shared by all that sync the same kind */
  constructor(
    kind: EntityKind<Spec, Fields, Found, More>,
    collection: Collection<Fields, Found>,
    reader: ReaderOf<Found> = new EntityReader<Found>(collection),
  ) {
    this.#kind = kind;
    this.#collection = collection;
    this.#reader = reader;
  }

  /** What {@link sync} would do. @throws as it does */
  async look(
    client: ManagementClient,
    resource: EntityResource<Spec>,
    known: KnownEntity,
    surroundings: Surroundings & More,
    signal: AbortSignal,
  ): Promise<{ readonly observed: Observed<Found> | undefined; readonly plan: EntityPlan<Fields> }> {
    const observed = await this.#observe(client, resource, known, surroundings.owner, signal);
    return { observed, plan: planEntity(this.#kind, resource, surroundings, observed) };
  }

  /** @throws ApiError, ApiTransportError and what the client throws */
  async sync(
    client: ManagementClient,
    resource: EntityResource<Spec>,
    known: KnownEntity,
    surroundings: Surroundings & More,
    o: SyncOptions,
  ): Promise<SyncResult<Found>> {
    const notes: SyncNote[] = [];
    for (let attempt = 1; ; attempt++) {
      const { observed, plan } = await this.look(client, resource, known, surroundings, o.signal);
      if (known.id !== undefined && !known.wasObserved && observed?.entity.id !== known.id && attempt === 1) {
        const note = `${this.#kind.noun} ${nameOf(resource)} (${known.id}) is no longer in the network: another client deleted it`;
        notes.push({ type: "Warning", reason: "DeletedExternally", note });
      }
      try {
        return {
          ...(await this.#carryOut(client, resource, surroundings, plan, observed, known, o, notes)),
          notes,
        };
      } catch (error) {
        const isRepeated = isGone(error) || isOutdated(error);
        if (!isRepeated || attempt === ATTEMPTS || !isChange(plan)) throw error;
        // Changed or gone between the look and the change, or something that it refers to is: the next look tells.
      }
    }
  }

  /** Takes the entity away, or lets it go, as the spec wants. Never deletes what does not carry our tag. */
  async remove(
    client: ManagementClient,
    resource: EntityResource<Spec>,
    known: KnownEntity,
    owner: Owner,
    signal: AbortSignal,
  ): Promise<RemovalResult> {
    const byId = known.id === undefined ? undefined : await this.#byId(client, known.id, signal);
    const found = byId !== undefined && isOurs(byId, owner) ? byId : await this.#byTag(client, owner, signal);
    if (found === undefined) return { state: byId === undefined ? "gone" : "released" };
    const { deletionPolicy, managementPolicy } = resource.spec;
    const isReleased = deletionPolicy === "Orphan" || managementPolicy === "Observe";
    try {
      if (isReleased) {
        await this.#release(client, found.id, signal);
      } else await this.#collection.delete(client, found.id, { signal });
    } catch (error) {
      if (isGone(error)) return { state: "gone" };
      if (!isReleased && error instanceof ApiError && (error.status === 409 || error.status === 400)) {
        return { state: "blocked", message: `${error.code}: ${error.message}` };
      }
      throw error;
    }
    return { state: isReleased ? "released" : "gone" };
  }

  /** Takes our tags away; whatever else others have set meanwhile stays. */
  async #release(client: ManagementClient, id: string, signal: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const { entity, change } = await this.#current(client, id, signal);
      const { name, tags } = entity;
      const released = { ...this.#collection.fieldsOf(entity), name, tags: releasedTags(tags) };
      try {
        await this.#collection.replace(client, entity, released, change);
        return;
      } catch (error) {
        if (!isOutdated(error) || attempt === ATTEMPTS) throw error;
      }
    }
  }

  async #observe(
    client: ManagementClient,
    resource: EntityResource<Spec>,
    known: KnownEntity,
    owner: Owner,
    signal: AbortSignal,
  ): Promise<Observed<Found> | undefined> {
    const as = (by: FoundBy, entity: Found | undefined) => (entity === undefined ? undefined : { entity, by });
    const { importId } = resource.spec;
    if (known.id !== undefined) {
      const by = known.wasObserved ? (known.id === importId ? "import" : "name") : "id";
      const found = as(by, await this.#byId(client, known.id, signal));
      if (found !== undefined) return found;
    }
    if (importId !== undefined) {
      const tagged = as("tag", await this.#byTag(client, owner, signal));
      return tagged ?? as("import", await this.#byId(client, importId, signal));
    }
    // One question for both: there may be thousands of resources to ask for.
    const name = nameOf(resource);
    const found = await this.#reader.byOwnerOrName(client, { owner, name }, signal);
    const tagged = found.find((entity) => isOurs(entity, owner));
    const named = found.find((entity) => entity.name === name);
    return as("tag", tagged) ?? as("name", named);
  }

  async #carryOut(
    client: ManagementClient,
    resource: EntityResource<Spec>,
    surroundings: Surroundings & More,
    plan: EntityPlan<Fields>,
    observed: Observed<Found> | undefined,
    known: KnownEntity,
    o: SyncOptions,
    notes: SyncNote[],
  ): Promise<DistributiveOmit<SyncResult<Found>, "notes">> {
    const { signal } = o;
    const found = observed?.entity;
    const { noun } = this.#kind;
    const identify = async (id: string): Promise<void> => {
      if (id !== known.id) await o.onIdentified(id);
    };
    switch (plan.action) {
      case "conflict":
        return { state: "conflict", reason: plan.reason, message: plan.message };
      case "wait":
        return { state: "waiting", reason: plan.reason, message: plan.message, missing: plan.missing };
      case "create": {
        const id = await this.#collection.create(client, plan.body, { signal });
        await o.onIdentified(id);
        notes.push({ type: "Normal", reason: "Created", note: `created the ${noun} ${plan.body.name} (${id})` });
        return { state: "synced", id, found: undefined, differences: [], missing: [] };
      }
      case "none": {
        const { id, differences, missing } = plan;
        const isObserving = resource.spec.managementPolicy === "Observe";
        // An id on its own says that the entity is ours: this one is written together with what says that it is not.
        if (!isObserving) await identify(id);
        return { state: isObserving ? "observed" : "synced", id, found, differences, missing };
      }
      case "patch":
      case "adopt": {
        const { id, body, whole, missing } = plan;
        await identify(id);
        if (observed === undefined) throw new TypeError(`a plan to change a ${noun} that was not found`);
        const isChanged = await this.#change(client, resource, surroundings, observed, signal);
        if (!isChanged) throw new ChangedMeanwhile(`the ${noun} ${whole.name} (${id}) was changed by another client`);
        // Some servers leave the checks of a policy as they were when other fields change, too: then they come second.
        const entity = await this.#byId(client, id, signal);
        const rest = entity && planEntity(this.#kind, resource, surroundings, { entity, by: "id" });
        if (entity !== undefined && rest?.action === "patch")
          await this.#change(client, resource, surroundings, { entity, by: "id" }, signal);
        const fields = Object.keys(body).join(", ");
        const [reason, note] =
          plan.action === "adopt"
            ? (["Adopted", `took over the ${noun} ${whole.name} (${id}), changed: ${fields}`] as const)
            : (["Updated", `changed the ${noun} ${whole.name} (${id}): ${fields}`] as const);
        notes.push({ type: "Normal", reason, note });
        return { state: "synced", id, found, differences: [], missing };
      }
    }
  }

  /**
   * Changes an entity that was found, as the resource wants it now. A replacement writes all fields, also those that the resource leaves to others: none of
   * these may have changed since they were read.
   * @returns false: there is nothing to change any more
   * @throws ApiError 404 when it is gone, 412 when another client was faster
   */
  async #change(
    client: ManagementClient,
    resource: EntityResource<Spec>,
    surroundings: Surroundings & More,
    observed: Observed<Found>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { entity, change } = await this.#current(client, observed.entity.id, signal);
    const now = planEntity(this.#kind, resource, surroundings, { ...observed, entity });
    if (now.action !== "patch" && now.action !== "adopt") return false;
    await this.#collection.replace(client, entity, now.whole, change);
    return true;
  }

  /** @throws ApiError 404 when it is gone */
  async #current(client: ManagementClient, id: string, signal: AbortSignal): Promise<Current<Found>> {
    const { data, headers } = await this.#collection.detail(client, id, { signal, headers: { prefer: "etag" } });
    const { etag } = headers;
    return { entity: data, change: { signal, ...(etag !== undefined && { headers: { "if-match": etag } }) } };
  }

  #byId(client: ManagementClient, id: string, signal: AbortSignal): Promise<Found | undefined> {
    return this.#reader.byId(client, id, signal);
  }

  async #byTag(client: ManagementClient, owner: Owner, signal: AbortSignal): Promise<Found | undefined> {
    return (await this.#reader.byOwner(client, owner, signal)).find((entity) => isOurs(entity, owner));
  }
}

type DistributiveOmit<T, Key extends PropertyKey> = T extends unknown ? Omit<T, Key> : never;

const isGone = (error: unknown): boolean => error instanceof ApiError && error.status === 404;

const isOutdated = (error: unknown): boolean =>
  error instanceof ChangedMeanwhile || (error instanceof ApiError && error.status === 412);

const isChange = ({ action }: { readonly action: string }): boolean => action === "patch" || action === "adopt";
