import { KINDS, type KubeObject, keyFor, type ObjectRef, type ResourceKind } from "../../../kube/kinds.ts";
import type { ReconcileContext } from "../../../loop/kind-reconciler.ts";
import { LatestObjects } from "../../../loop/latest-objects.ts";
import type { EdgeRouterResource } from "../schema.ts";

export type RouterContext = ReconcileContext<EdgeRouterResource>;

/** Kinds whose content the watches leave out: they are read from the server. */
const READ = new Set(["ConfigMap", "Secret"]);

/**
 * Finds children: by the watches where these know them, with what was written a moment ago put first, and on the server where an object is wanted that
 * they don't know: it may have another owner.
 */
export class ChildReader {
  readonly #latest = new Map<string, LatestObjects<KubeObject>>();
  /** ConfigMaps as they were read last: nothing in them is secret, and as long as the watch tells no other version they are so still. */
  readonly #configMaps = new Map<string, KubeObject>();
  /** EdgeRouters, by UID, that have no ServiceMonitor for sure. */
  readonly #unmonitored = new Set<string>();

  /** @param isWanted false: only one that is known is looked for */
  async find<T extends KubeObject>(
    context: RouterContext,
    ref: ObjectRef & { namespace: string },
    isWanted: boolean,
  ): Promise<T | undefined> {
    const { kind, namespace, name } = ref;
    const known = context.known.child<T>(kind, namespace, name);
    if (known === undefined && !isWanted) return undefined;
    if (kind.kind === "ConfigMap") return await this.#configMap<T>(context, ref, known);
    if (known === undefined || READ.has(kind.kind)) return await context.client.get<T>(ref, { signal: context.signal });
    return this.#of(kind).of(keyFor(namespace, name), known) as T;
  }

  async #configMap<T extends KubeObject>(
    { client, signal }: RouterContext,
    ref: ObjectRef & { namespace: string },
    known: KubeObject | undefined,
  ): Promise<T | undefined> {
    const key = keyFor(ref.namespace, ref.name);
    const before = this.#configMaps.get(key);
    if (before !== undefined && known !== undefined && isSameVersion(before, known)) return before as T;
    const found = await client.get<T>(ref, { signal });
    if (found === undefined) this.#configMaps.delete(key);
    else this.#configMaps.set(key, found);
    return found;
  }

  /** Not every cluster knows this kind: it is not watched. */
  async serviceMonitor(
    context: RouterContext,
    { metadata, spec }: EdgeRouterResource,
  ): Promise<KubeObject | undefined> {
    const { namespace, name, uid } = metadata;
    if (spec.serviceMonitor.enabled) this.#unmonitored.delete(uid);
    else if (this.#unmonitored.has(uid)) return undefined;
    const found = await context.client.get({ kind: KINDS.ServiceMonitor, namespace, name }, { signal: context.signal });
    if (found === undefined && !spec.serviceMonitor.enabled) this.#unmonitored.add(uid);
    return found;
  }

  /** The server's answer to a write. */
  wrote(kind: ResourceKind, object: KubeObject): void {
    this.#of(kind).wrote(keyFor(object.metadata.namespace, object.metadata.name), object);
  }

  forget({ kind, namespace, name }: ObjectRef): void {
    this.#of(kind).forget(keyFor(namespace, name));
  }

  /** What is kept of the children of an EdgeRouter that is gone. Of another one whose name begins like it something is read once more at most. */
  forgetAll({ metadata: { namespace, name, uid } }: Pick<EdgeRouterResource, "metadata">): void {
    const isOf = (key: string): boolean =>
      key === keyFor(namespace, name) || key.startsWith(`${keyFor(namespace, name)}-`);
    for (const key of this.#configMaps.keys()) if (isOf(key)) this.#configMaps.delete(key);
    for (const latest of this.#latest.values()) latest.forgetWhere(isOf);
    this.#unmonitored.delete(uid);
  }

  #of(kind: ResourceKind): LatestObjects<KubeObject> {
    const there = this.#latest.get(kind.kind) ?? new LatestObjects<KubeObject>();
    this.#latest.set(kind.kind, there);
    return there;
  }
}

const isSameVersion = ({ metadata: left }: KubeObject, { metadata: right }: KubeObject): boolean =>
  left.uid === right.uid && left.resourceVersion === right.resourceVersion;
