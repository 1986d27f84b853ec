import { GROUP, MANAGED_BY } from "@sallyport/resources";
import type { Logger } from "@sallyport/wire";
import { type OwnerName, ownerByLabels } from "../children/owner-marks.ts";
import type { KubeClient } from "../kube/client/client.ts";
import { type KubeObject, keyFor, keyOf, type ResourceKind } from "../kube/kinds.ts";
import { type Change, Reflector, type ReflectorMetrics } from "../kube/watch/reflector.ts";
import { type Place, ReferenceIndex } from "./changes.ts";
import type { AnyResource, Known } from "./kind-reconciler.ts";

/** Kinds of children whose content is not kept in memory. */
const HEAVY: ReadonlySet<string> = new Set(["Secret", "ConfigMap"]);

interface ResourceStoresOptions {
  readonly client: KubeClient;
  /** Our kinds. */
  readonly kinds: readonly ResourceKind[];
  /** Kinds of children. */
  readonly childKinds: readonly ResourceKind[];
  /** Empty: all. */
  readonly namespaces: readonly string[];
  readonly log: Logger;
  readonly metrics?: ReflectorMetrics;
  /** What a resource refers to. */
  readonly targetsOf: (resource: AnyResource) => readonly Place[];
  readonly onResource: (change: Change<AnyResource & KubeObject>) => void;
  /** A child changed: its owner. */
  readonly onChild: (owner: Place) => void;
}

/** All that the watches know: our resources, their children, and who refers to whom. */
export class ResourceStores implements Known {
  readonly references = new ReferenceIndex();
  readonly #resources: ReadonlyMap<string, Reflector<AnyResource & KubeObject>>;
  readonly #children: ReadonlyMap<string, Reflector<KubeObject>>;
  readonly #o: ResourceStoresOptions;

  constructor(o: ResourceStoresOptions) {
    this.#o = o;
    const { client, namespaces, log, metrics } = o;
    const common = { namespaces, log, metrics };
    this.#resources = new Map(
      o.kinds.map((kind) => {
        const on = (change: Change<AnyResource & KubeObject>): void => this.#took(change);
        return [kind.kind, new Reflector<AnyResource & KubeObject>(client, kind, { ...common, on })];
      }),
    );
    this.#children = new Map(
      o.childKinds.map((kind) => {
        const labelSelector = `${MANAGED_BY.key}=${MANAGED_BY.value}`;
        const on = (change: Change<KubeObject>): void => this.#tookChild(change);
        const trim = HEAVY.has(kind.kind) ? { trim: withoutData } : {};
        return [kind.kind, new Reflector<KubeObject>(client, kind, { ...common, ...trim, labelSelector, on })];
      }),
    );
  }

  get reflectors(): readonly Pick<Reflector<never>, "kind" | "isSynced" | "lastEventAt" | "silentMs" | "lastError">[] {
    return [...this.#resources.values(), ...this.#children.values()];
  }

  /** Mirrors the cluster until the signal ends it. */
  async run(signal: AbortSignal): Promise<void> {
    const all = [...this.#resources.values(), ...this.#children.values()];
    await Promise.all(all.map((reflector) => reflector.start(signal)));
  }

  /** Resolves once our resources and children of these kinds were listed. @throws the signal's reason of {@link run} */
  async synced(childKinds: readonly ResourceKind[]): Promise<void> {
    const children = childKinds.map(({ kind }) => this.#children.get(kind)?.synced);
    await Promise.all([...[...this.#resources.values()].map(({ synced }) => synced), ...children]);
  }

  resource<R extends AnyResource>(kind: string, namespace: string, name: string): R | undefined {
    return this.#resources.get(kind)?.store.get(keyFor(namespace, name)) as R | undefined;
  }

  resources<R extends AnyResource>(kind: string, namespace?: string): R[] {
    const all = [...(this.#resources.get(kind)?.store.values() ?? [])] as unknown as R[];
    return namespace === undefined ? all : all.filter(({ metadata }) => metadata.namespace === namespace);
  }

  child<T extends KubeObject>(kind: ResourceKind, namespace: string, name: string): T | undefined {
    return this.#childStore(kind).get(keyFor(namespace, name)) as T | undefined;
  }

  childrenOf<T extends KubeObject>(kind: ResourceKind, owner: AnyResource): T[] {
    const { namespace, name, uid } = owner.metadata;
    return [...this.#childStore(kind).values()].filter(({ metadata }) => {
      if (metadata.namespace !== namespace) return false;
      if (metadata.ownerReferences?.some((reference) => reference.uid === uid)) return true;
      const told = ownerByLabels(metadata);
      return told?.kind === owner.kind && told.name === name;
    }) as T[];
  }

  referrersOf(resource: AnyResource): AnyResource[] {
    const sources = this.references.sourcesOf({ kind: resource.kind, key: keyOf(resource) });
    return sources.flatMap(({ kind, key }) => this.#resources.get(kind)?.store.get(key) ?? []);
  }

  #childStore(kind: ResourceKind) {
    const reflector = this.#children.get(kind.kind);
    if (reflector !== undefined) return reflector.store;
    throw new TypeError(`no children of kind ${kind.kind} are watched: name it in \`owns\` of the reconciler`);
  }

  #took(change: Change<AnyResource & KubeObject>): void {
    const { object, type } = change;
    const source = { kind: object.kind, key: keyOf(object) };
    if (type === "set") this.references.set(source, this.#o.targetsOf(object));
    this.#o.onResource(change);
    if (type === "delete") this.references.set(source, []);
  }

  #tookChild({ object, previous }: Change<KubeObject>): void {
    for (const { metadata } of previous === undefined ? [object] : [object, previous]) {
      const owner = ownerOf(metadata);
      if (owner !== undefined) this.#o.onChild({ kind: owner.kind, key: keyFor(metadata.namespace, owner.name) });
    }
  }
}

/** By its owner reference; a pod, which Kubernetes makes from a template, says it by labels. */
function ownerOf(metadata: KubeObject["metadata"]): OwnerName | undefined {
  const owner = metadata.ownerReferences?.find(({ controller }) => controller);
  return owner?.apiVersion.startsWith(`${GROUP}/`) ? owner : ownerByLabels(metadata);
}

/** Values stay out of memory. */
function withoutData(object: KubeObject): KubeObject {
  const { data, stringData, binaryData, ...rest } = object as KubeObject & Readonly<Record<string, unknown>>;
  return rest as KubeObject;
}
