import { isDeepStrictEqual } from "node:util";
import { FINALIZER } from "@sallyport/resources";
import type { KubeClient } from "../kube/client/client.ts";
import { KubeError } from "../kube/client/errors.ts";
import { type KubeObject, keyOf, type ObjectKey, objectOf, type ResourceKind, refOf } from "../kube/kinds.ts";
import type { AnyResource } from "./kind-reconciler.ts";
import { LatestObjects } from "./latest-objects.ts";
import { sameStatus } from "./status.ts";

/** What was applied, and what the server made of it, where that is something else. */
interface Applied {
  readonly wanted: AnyResource["status"];
  readonly got: AnyResource["status"];
}

/**
 * Writes what the operator writes about a resource itself: its finalizer and its status, and nothing else of it. A write that would change nothing is
 * not made.
 */
export class ResourceWriter<R extends AnyResource> {
  readonly latest = new LatestObjects<R & KubeObject>();
  readonly #client: KubeClient;
  readonly #kind: ResourceKind;
  readonly #applied = new Map<ObjectKey, Applied>();
  /** The uid of what was let go, until the watch tells that it is gone. */
  readonly #released = new Map<ObjectKey, string>();

  constructor(client: KubeClient, kind: ResourceKind) {
    this.#client = client;
    this.#kind = kind;
  }

  /** @throws KubeError a conflict when another client wrote first */
  async addFinalizer(resource: R, signal: AbortSignal): Promise<R> {
    const finalizers = resource.metadata.finalizers ?? [];
    if (finalizers.includes(FINALIZER)) return resource;
    return await this.#setFinalizers(resource, [...finalizers, FINALIZER], signal);
  }

  /** Lets the resource go. Of one that is gone already there is nothing to let go. */
  async dropFinalizer(resource: R, signal: AbortSignal): Promise<void> {
    const left = (resource.metadata.finalizers ?? []).filter((finalizer) => finalizer !== FINALIZER);
    try {
      await this.#setFinalizers(resource, left, signal);
    } catch (error) {
      if (!(error instanceof KubeError) || !error.isNotFound) throw error;
    }
    this.#released.set(keyOf(resource), resource.metadata.uid);
  }

  /** Whether the resource was let go: a watch that is behind still shows it with its finalizer. */
  hasReleased({ metadata }: R): boolean {
    return this.#released.get(keyOf({ metadata })) === metadata.uid;
  }

  async #setFinalizers(resource: R, finalizers: readonly string[], signal: AbortSignal): Promise<R> {
    const { uid, resourceVersion } = resource.metadata;
    // With the version: a list is replaced whole, and others have finalizers, too.
    const metadata = { uid, resourceVersion, finalizers };
    return this.#wrote(await this.#client.patch<R & KubeObject>(refOf(this.#kind, resource), { metadata }, { signal }));
  }

  /** Makes the status this one where it is not. Answers the resource as it is then. */
  async status(resource: R, wanted: R["status"], signal: AbortSignal): Promise<R> {
    const key = keyOf(resource);
    if (sameStatus(resource.status, wanted)) return resource;
    const applied = this.#applied.get(key);
    // What the server writes in another way would else be written forever.
    if (
      applied !== undefined &&
      isDeepStrictEqual(applied.wanted, wanted) &&
      sameStatus(applied.got, resource.status)
    ) {
      return resource;
    }
    const { name, namespace, uid } = resource.metadata;
    const object = objectOf(this.#kind, { name, namespace, uid }, { status: wanted });
    const answer = await this.#client.apply<R & KubeObject>(object, { status: true, signal });
    if (sameStatus(answer.status, wanted)) this.#applied.delete(key);
    else this.#applied.set(key, { wanted, got: answer.status });
    return this.#wrote(answer);
  }

  forget(key: ObjectKey): void {
    this.latest.forget(key);
    this.#applied.delete(key);
    this.#released.delete(key);
  }

  #wrote(answer: R & KubeObject): R {
    this.latest.wrote(keyOf(answer), answer);
    return answer;
  }
}
