import { abortable } from "@sallyport/async";
import { Admissions } from "../children/intent.ts";
import type { NetworkRef } from "../controller-client/network-clients.ts";
import { type KubeObject, keyFor, keyOf, type ResourceKind } from "../kube/kinds.ts";
import type { Change } from "../kube/watch/reflector.ts";
import { concernsReferrers, type Place } from "./changes.ts";
import { networkOf } from "./deletion.ts";
import { KindLoop } from "./kind-loop.ts";
import type { AnyResource, FollowContext, KindReconciler } from "./kind-reconciler.ts";
import { NamedWatches } from "./named-watches.ts";
import { ResourceStores } from "./resource-stores.ts";
import type { LoopParts } from "./session.ts";

interface LoopsOptions extends Omit<LoopParts, "known" | "named" | "admissions"> {
  /** One for each kind that is reconciled. */
  readonly reconcilers: readonly KindReconciler[];
  /** All our kinds: also those without a reconciler are watched, since others refer to them. */
  readonly kinds: readonly ResourceKind[];
  /** Namespaces that this operator looks after; empty: all. */
  readonly namespaces: readonly string[];
}

/** All kinds together: the watches, who wakes whom, and the work. */
export class Loops {
  readonly stores: ResourceStores;
  readonly #o: LoopsOptions;
  readonly #named: NamedWatches;
  readonly #loops: ReadonlyMap<string, KindLoop<AnyResource>>;

  constructor(o: LoopsOptions) {
    const { client, log, metrics, reconcilers, namespaces } = o;
    this.#o = o;
    this.#named = new NamedWatches({ client, log, metrics });
    const byKind = new Map(reconcilers.map((reconciler) => [reconciler.kind.kind, reconciler]));
    this.stores = new ResourceStores({
      client,
      kinds: o.kinds,
      childKinds: [...new Map(reconcilers.flatMap(({ owns = [] }) => owns).map((kind) => [kind.kind, kind])).values()],
      namespaces,
      log,
      metrics,
      targetsOf: (resource) => targetsOf(resource, byKind.get(resource.kind)),
      onResource: (change) => this.#changed(change),
      onChild: (owner) => this.#enqueue(owner),
    });
    const parts: LoopParts = { ...o, known: this.stores, named: this.#named, admissions: new Admissions() };
    this.#loops = new Map(reconcilers.map((reconciler) => [reconciler.kind.kind, new KindLoop(reconciler, parts)]));
    for (const reflector of this.stores.reflectors) metrics.watchReflector(reflector);
  }

  /** Mirrors the cluster until the signal ends it; this is done without being the leader. */
  async watch(signal: AbortSignal): Promise<void> {
    await this.stores.run(signal);
    await this.#named.close();
  }

  /** Reconciles until the signal ends it, each kind from when everything that it needs was listed. Only one process may do so. */
  async work(signal: AbortSignal): Promise<void> {
    await Promise.all(
      [...this.#loops.values()].map(async (loop) => {
        try {
          await abortable(this.stores.synced(loop.reconciler.owns ?? []), signal);
        } catch (error) {
          if (signal.aborted) return;
          throw error;
        }
        await Promise.all([loop.run(signal), loop.reconciler.follow?.(this.#followed(loop, signal))]);
      }),
    );
  }

  #followed({ reconciler }: KindLoop<AnyResource>, signal: AbortSignal): FollowContext {
    const { networks, log } = this.#o;
    return {
      networks,
      known: this.stores,
      signal,
      log,
      wake: (key) => this.#enqueue({ kind: reconciler.kind.kind, key }),
    };
  }

  /** Looks again at everything that refers to the Network, or only at what was not in order when it was last looked at. */
  wakeNetwork({ namespace, name }: NetworkRef, { unsettledOnly = false } = {}): void {
    for (const place of this.stores.references.sourcesOf({ kind: "Network", key: keyFor(namespace, name) })) {
      if (!unsettledOnly || this.#loops.get(place.kind)?.isUnsettled(place.key)) this.#enqueue(place);
    }
  }

  /** Looks again at every resource, after those that changed. */
  resync(): void {
    for (const [kind, loop] of this.#loops) {
      for (const resource of this.stores.resources(kind)) loop.enqueue(keyOf(resource), "resync");
    }
  }

  /** Keys that wait or are in work; those that are only due later are not among them. */
  get pending(): number {
    return [...this.#loops.values()].reduce((sum, { queue }) => sum + queue.depth + queue.working.size, 0);
  }

  #changed(change: Change<AnyResource & KubeObject>): void {
    const { type, object, previous } = change;
    const place = { kind: object.kind, key: keyOf(object) };
    this.#loops.get(object.kind)?.changed(change);
    if (type === "delete") {
      if (object.kind === "Network") void this.#o.networks.remove(object.metadata);
      // What waits until no resource refers to it any more.
      for (const target of this.stores.references.targetsOf(place)) if (this.#isGoing(target)) this.#enqueue(target);
    }
    if (type === "delete" || concernsReferrers(previous, object)) {
      for (const source of this.stores.references.sourcesOf(place)) this.#enqueue(source);
    }
  }

  #isGoing({ kind, key }: Place): boolean {
    const [namespace = "", name = ""] = key.split("/");
    return this.stores.resource(kind, namespace, name)?.metadata.deletionTimestamp !== undefined;
  }

  #enqueue({ kind, key }: Place): void {
    this.#loops.get(kind)?.enqueue(key);
  }
}

function targetsOf(resource: AnyResource, reconciler: KindReconciler | undefined): Place[] {
  const { namespace } = resource.metadata;
  const network = networkOf(resource);
  const named = reconciler?.references?.(resource) ?? [];
  return [...(network === undefined ? [] : [{ kind: "Network", name: network }]), ...named].map(({ kind, name }) => ({
    kind,
    key: keyFor(namespace, name),
  }));
}
