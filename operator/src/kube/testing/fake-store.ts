import { randomUUID } from "node:crypto";
import { secondTime } from "../formats.ts";
import { apiVersionOf, KINDS, type ResourceKind } from "../kinds.ts";
import { applyIntent, managedFields, noteUpdate, type Ownership, type Writer } from "./apply.ts";
import { type Change, ChangeHistory } from "./change-history.ts";
import { copy, isMap, type Json, type JsonMap, mergePatch, same } from "./json.ts";
import { normalize } from "./normalize.ts";
import { dropAllBut, metaOf, refuseNewFinalizers, specOf } from "./object.ts";
import { builtInShape, type Shape, schemaShape } from "./schema.ts";
import { conflict, notFound, Refusal } from "./status.ts";

/** A kind that the server serves. */
export interface Served {
  readonly kind: ResourceKind;
  readonly shape: Shape;
}

interface Stored {
  readonly object: JsonMap;
  readonly owners: Ownership[];
}

export interface Target {
  readonly served: Served;
  readonly namespace?: string;
  readonly name: string;
}

export interface Write extends Writer {
  readonly dryRun?: boolean;
}

export interface Preconditions {
  readonly uid?: string;
  readonly resourceVersion?: string;
}

/** The objects of a fake API server, under one version that grows with every change. */
export class FakeStore {
  readonly #served = new Map<string, Served>();
  readonly #objects = new Map<string, Map<string, Stored>>();
  readonly history = new ChangeHistory();

  constructor(kinds: Iterable<ResourceKind> = []) {
    for (const kind of [...Object.values(KINDS), ...kinds]) this.serve(kind);
  }

  serve(kind: ResourceKind, shape: Shape = builtInShape(kind.kind)): void {
    this.#served.set(`${kind.group}/${kind.version}/${kind.plural}`, { kind, shape });
  }

  served(group: string, version: string, plural: string): Served | undefined {
    return this.#served.get(`${group}/${version}/${plural}`);
  }

  get(target: Target): JsonMap {
    return this.#shown(target.served, this.#find(target));
  }

  /** Undefined when there is none. */
  find(target: Target): JsonMap | undefined {
    const { served, namespace, name } = target;
    const stored = this.#collection(served.kind).get(keyOf(namespace, name));
    return stored === undefined ? undefined : this.#shown(served, stored);
  }

  list({ kind, shape }: Served, namespace?: string): JsonMap[] {
    return [...this.#collection(kind)]
      .filter(([, { object }]) => namespace === undefined || metaOf(object).namespace === namespace)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, stored]) => this.#shown({ kind, shape }, stored));
  }

  create(served: Served, namespace: string | undefined, given: JsonMap, write: Write): JsonMap {
    const object = copy(given);
    const { kind, shape } = served;
    const metadata = isMap(object.metadata) ? object.metadata : {};
    object.metadata = metadata;
    const name = metadata.name;
    if (typeof name !== "string" || name === "") {
      throw new Refusal(422, "Invalid", `${kind.kind} is invalid: metadata.name: Required value: name is required`);
    }
    if (namespace !== undefined && metadata.namespace !== undefined && metadata.namespace !== namespace) {
      throw new Refusal(
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
      );
    }
    if (kind.kind === "SelfSubjectAccessReview") return { ...object, status: { allowed: true } };
    this.#refuseTerminating(kind, namespace);
    if (this.#collection(kind).has(keyOf(namespace, name))) {
      throw new Refusal(409, "AlreadyExists", `${kind.plural} "${name}" already exists`);
    }
    const owners = noteUpdate({}, object, write, [], shape, secondTime());
    return this.#insert(served, namespace, name, object, owners, write.dryRun ?? false);
  }

  replace(target: Target, given: JsonMap, write: Write): JsonMap {
    const stored = this.#find(target);
    this.#refuseStale(target, stored, metaOf(given).resourceVersion);
    return this.#change(target, stored, copy(given), write);
  }

  patch(target: Target, patch: JsonMap, write: Write): JsonMap {
    const stored = this.#find(target);
    const { uid, resourceVersion } = isMap(patch.metadata) ? patch.metadata : {};
    if (uid !== undefined && uid !== metaOf(stored.object).uid) throw conflict(target.served.kind.plural, target.name);
    this.#refuseStale(target, stored, resourceVersion);
    return this.#change(target, stored, mergePatch(copy(stored.object), patch) as JsonMap, write);
  }

  /** Server-side apply; `isNew` says that it made the object. */
  apply(target: Target, given: JsonMap, write: Write, force: boolean): { object: JsonMap; isNew: boolean } {
    const { served, namespace, name } = target;
    const intent = copy(given);
    if (metaOf(intent).managedFields !== undefined) {
      throw new Refusal(400, "BadRequest", "metadata.managedFields must be nil");
    }
    served.shape.prune(intent);
    served.shape.completeKeys(intent);
    if (write.subresource === "status") dropAllBut(intent, "status");
    else if (served.shape.hasStatus) delete intent.status;
    const stored = this.#collection(served.kind).get(keyOf(namespace, name));
    if (stored === undefined) {
      if (write.subresource !== undefined) throw notFound(served.kind.plural, name);
      if (metaOf(intent).resourceVersion !== undefined || metaOf(intent).uid !== undefined)
        throw conflict(served.kind.plural, name);
      this.#refuseTerminating(served.kind, namespace);
      const { object, owners } = applyIntent({}, intent, write, [], served.shape, { force, now: secondTime() });
      return { object: this.#insert(served, namespace, name, object, owners, write.dryRun ?? false), isNew: true };
    }
    this.#refuseStale(target, stored, metaOf(intent).resourceVersion);
    const applied = applyIntent(stored.object, intent, write, stored.owners, served.shape, {
      force,
      now: secondTime(),
    });
    const object = this.#settle(target, stored, applied.object, write.subresource);
    return { object: this.#keep(target, stored, object, applied.owners, write.dryRun ?? false), isNew: false };
  }

  /** The object as it is now, or as it was when it is gone at once. */
  delete(target: Target, o: Preconditions = {}): JsonMap {
    const stored = this.#find(target);
    const metadata = metaOf(stored.object);
    if (o.uid !== undefined && o.uid !== metadata.uid) throw conflict(target.served.kind.plural, target.name);
    this.#refuseStale(target, stored, o.resourceVersion);
    const finalizers = metadata.finalizers;
    if (!Array.isArray(finalizers) || finalizers.length === 0) return this.#remove(target, stored);
    if (metadata.deletionTimestamp !== undefined) return this.#shown(target.served, stored);
    const object = copy(stored.object);
    Object.assign(metaOf(object), {
      deletionTimestamp: secondTime(),
      deletionGracePeriodSeconds: 0,
      generation: Number(metadata.generation ?? 1) + 1,
    });
    return this.#commit(target, { object, owners: stored.owners }, "MODIFIED", stored);
  }

  /** What a garbage collector would delete: objects all of whose owners are gone. Answers how many it deleted. */
  collectGarbage(): number {
    const uids = new Set(
      [...this.#objects.values()].flatMap((all) => [...all.values()].map(({ object }) => metaOf(object).uid)),
    );
    let count = 0;
    for (const served of this.#served.values()) {
      for (const object of this.list(served)) {
        const { ownerReferences, namespace, name } = metaOf(object);
        if (!Array.isArray(ownerReferences) || ownerReferences.length === 0) continue;
        if (ownerReferences.some((owner) => isMap(owner) && uids.has(owner.uid))) continue;
        this.delete({ served, name: String(name), ...(typeof namespace === "string" ? { namespace } : {}) });
        count += 1;
      }
    }
    return count === 0 ? 0 : count + this.collectGarbage();
  }

  #insert(
    served: Served,
    namespace: string | undefined,
    name: string,
    object: JsonMap,
    owners: Ownership[],
    dryRun: boolean,
  ): JsonMap {
    const { kind, shape } = served;
    object.apiVersion = apiVersionOf(kind);
    object.kind = kind.kind;
    shape.prune(object);
    if (shape.hasStatus) delete object.status;
    object.metadata = {
      ...metaOf(object),
      name,
      ...(namespace === undefined ? {} : { namespace }),
      uid: randomUUID(),
      creationTimestamp: secondTime(),
      generation: 1,
    };
    delete metaOf(object).managedFields;
    delete metaOf(object).deletionTimestamp;
    normalize(kind, object);
    shape.withDefaults(object);
    const target: Target = { served, name, ...(namespace === undefined ? {} : { namespace }) };
    const stored: Stored = { object, owners };
    if (dryRun) return this.#shown(served, stored);
    const shown = this.#commit(target, stored, "ADDED");
    if (kind.kind === KINDS.CustomResourceDefinition.kind) this.#serveDefinition(object);
    return shown;
  }

  #change(target: Target, stored: Stored, given: JsonMap, write: Write): JsonMap {
    const { shape } = target.served;
    shape.prune(given);
    const object = this.#settle(target, stored, given, write.subresource);
    const owners = noteUpdate(stored.object, object, write, stored.owners, shape, secondTime());
    return this.#keep(target, stored, object, owners, write.dryRun ?? false);
  }

  /** What of a write counts: through the status only the status, else all but the status and what the server decides. */
  #settle(
    { served, name, namespace }: Target,
    { object: live }: Stored,
    given: JsonMap,
    subresource?: "status",
  ): JsonMap {
    const { shape, kind } = served;
    const was = metaOf(live);
    if (subresource === "status")
      return { ...copy(live), ...(given.status === undefined ? {} : { status: given.status }) };
    const object: JsonMap = { ...given, apiVersion: apiVersionOf(kind), kind: kind.kind };
    const metadata: JsonMap = { ...metaOf(given), name, ...(namespace === undefined ? {} : { namespace }) };
    for (const fixed of ["uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"]) {
      if (was[fixed] === undefined) delete metadata[fixed];
      else metadata[fixed] = was[fixed];
    }
    delete metadata.managedFields;
    if (was.resourceVersion !== undefined) metadata.resourceVersion = was.resourceVersion;
    object.metadata = metadata;
    if (shape.hasStatus) {
      if (live.status === undefined) delete object.status;
      else object.status = copy(live.status);
    }
    refuseNewFinalizers(kind, was, metadata);
    normalize(kind, object, live);
    shape.withDefaults(object);
    if (!same(specOf(live), specOf(object))) metadata.generation = Number(was.generation ?? 1) + 1;
    return object;
  }

  #keep(target: Target, stored: Stored, object: JsonMap, owners: Ownership[], dryRun: boolean): JsonMap {
    if (dryRun) return this.#shown(target.served, { object, owners });
    const isSame = same(stored.object, object);
    if (isSame && same(ownersOf(stored.owners), ownersOf(owners))) return this.#shown(target.served, stored);
    const { deletionTimestamp, finalizers } = metaOf(object);
    const isFree = !Array.isArray(finalizers) || finalizers.length === 0;
    if (deletionTimestamp !== undefined && isFree) return this.#remove(target, { object, owners }, stored);
    const shown = this.#commit(target, { object, owners }, "MODIFIED", stored);
    if (object.kind === KINDS.CustomResourceDefinition.kind) this.#serveDefinition(object);
    return shown;
  }

  #remove(target: Target, stored: Stored, before = stored): JsonMap {
    return this.#commit(target, { object: copy(stored.object), owners: stored.owners }, "DELETED", before);
  }

  #commit(target: Target, stored: Stored, type: Change["type"], before?: Stored): JsonMap {
    const { served, namespace, name } = target;
    const version = this.history.version + 1;
    metaOf(stored.object).resourceVersion = String(version);
    const collection = this.#collection(served.kind);
    const previous = before === undefined ? undefined : this.#shown(served, before);
    if (type === "DELETED") collection.delete(keyOf(namespace, name));
    else collection.set(keyOf(namespace, name), stored);
    const object = this.#shown(served, stored);
    this.history.add({ version, kind: served.kind, type, object, ...(previous === undefined ? {} : { previous }) });
    return copy(object);
  }

  #shown({ kind }: Served, { object, owners }: Stored): JsonMap {
    const shown = copy(object);
    if (owners.length > 0) metaOf(shown).managedFields = managedFields(owners, apiVersionOf(kind));
    return shown;
  }

  #find({ served, namespace, name }: Target): Stored {
    const stored = this.#collection(served.kind).get(keyOf(namespace, name));
    if (stored === undefined) throw notFound(served.kind.plural, name);
    return stored;
  }

  #collection({ group, plural }: ResourceKind): Map<string, Stored> {
    const place = `${group}/${plural}`;
    const found = this.#objects.get(place) ?? new Map<string, Stored>();
    this.#objects.set(place, found);
    return found;
  }

  #refuseStale(target: Target, { object }: Stored, version: Json | undefined): void {
    if (version === undefined || version === "" || version === metaOf(object).resourceVersion) return;
    throw conflict(target.served.kind.plural, target.name);
  }

  #refuseTerminating({ plural }: ResourceKind, namespace: string | undefined): void {
    if (namespace === undefined) return;
    const stored = this.#collection(KINDS.Namespace).get(keyOf(undefined, namespace));
    if (stored === undefined || metaOf(stored.object).deletionTimestamp === undefined) return;
    const message = `unable to create new content in namespace ${namespace} because it is being terminated`;
    throw new Refusal(403, "Forbidden", `${plural} is forbidden: ${message}`, {
      causes: [
        {
          reason: "NamespaceTerminating",
          message: `namespace ${namespace} is being terminated`,
          field: "metadata.namespace",
        },
      ],
    });
  }

  /** A definition makes its kind known, with its schema. */
  #serveDefinition(object: JsonMap): void {
    const spec = object.spec as unknown as Definition;
    for (const version of spec.versions) {
      const { plural, kind } = spec.names;
      const shape = schemaShape(version.schema?.openAPIV3Schema ?? {}, version.subresources?.status !== undefined);
      this.serve(
        { group: spec.group, version: version.name, plural, kind, namespaced: spec.scope === "Namespaced" },
        shape,
      );
    }
  }
}

interface Definition {
  readonly group: string;
  readonly scope: string;
  readonly names: { readonly plural: string; readonly kind: string };
  readonly versions: readonly {
    readonly name: string;
    readonly schema?: { readonly openAPIV3Schema?: Parameters<typeof schemaShape>[0] };
    readonly subresources?: { readonly status?: unknown };
  }[];
}

function keyOf(namespace: string | undefined, name: string): string {
  return `${namespace ?? ""}/${name}`;
}

/** Without times and regardless of order: what decides whether anything changed. */
function ownersOf(owners: readonly Ownership[]): Json {
  return owners
    .map(({ manager, operation, subresource, paths }) =>
      JSON.stringify([manager, operation, subresource ?? "", ...[...paths].sort()]),
    )
    .sort();
}
