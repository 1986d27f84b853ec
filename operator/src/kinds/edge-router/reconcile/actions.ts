import { type EdgeRouterResource, ofOrdinal, ownerOf } from "@sallyport/resources";
import type { RemovalResult } from "@sallyport/resources/sync";
import { applyChild } from "../../../children/apply.ts";
import type { UsableNetwork } from "../../../controller-client/network-clients.ts";
import { KubeError } from "../../../kube/client/errors.ts";
import { KINDS, KindTable, type KubeObject, keyFor } from "../../../kube/kinds.ts";
import { afterReEnroll } from "../plan/enrollment.ts";
import type { RouterAction } from "../plan/router-plan.ts";
import { claimsPrefix } from "../render/names.ts";
import { type ChildReader, edgeRouterSync, knownOf, type RouterContext, statusOfRouter } from "./observe.ts";

const TABLE = new KindTable();
/** A refused growth of a volume is tried again after this time: an administrator may have allowed it since. */
const GROW_AGAIN_MS = 10 * 60_000;
/** A new token is good for longer than this. A network that does not show it would else be asked for one after the other. */
const RE_ENROLL_AGAIN_MS = 60_000;

/** Carries out what plans of EdgeRouters say. One for all of them. */
export class RouterActions {
  readonly #reader: ChildReader;
  /** Claims that the cluster refused to grow: to which size, and until when they are left alone. */
  readonly #notGrown = new Map<string, { readonly size: string; readonly until: number }>();

  /** When routers, by their ids, were enrolled again without being asked for. */
  readonly #reEnrolled = new Map<string, number>();

  constructor(reader: ChildReader) {
    this.#reader = reader;
  }

  /** Whether it came to nothing a while ago: then it is not tried with every look. */
  isPutOff({ metadata }: EdgeRouterResource, action: RouterAction, now: Date): boolean {
    if (action.type === "reEnroll" && action.handled === undefined) {
      const last = this.#reEnrolled.get(action.id);
      return last !== undefined && now.getTime() - last < RE_ENROLL_AGAIN_MS;
    }
    if (action.type !== "growClaim") return false;
    const refused = this.#notGrown.get(keyFor(metadata.namespace, action.name));
    return refused !== undefined && refused.size === action.size && now.getTime() < refused.until;
  }

  /** What was kept of a resource that is gone. */
  forget(resource: EdgeRouterResource): void {
    const { namespace, name } = resource.metadata;
    const claims = keyFor(namespace, claimsPrefix(name));
    for (const key of this.#notGrown.keys()) if (key.startsWith(claims)) this.#notGrown.delete(key);
    for (const { id } of resource.status.routers ?? []) if (id !== undefined) this.#reEnrolled.delete(id);
    this.#reader.forgetAll(resource);
  }

  /** Answers the resource as it is then. @throws RemovalBlockedError when the network refuses to let an entity go */
  async carryOut(
    resource: EdgeRouterResource,
    action: RouterAction,
    network: UsableNetwork,
    context: RouterContext,
  ): Promise<EdgeRouterResource> {
    const { signal } = context;
    switch (action.type) {
      case "apply":
        await this.apply(action.object, context);
        return resource;
      case "delete": {
        const { ref, uid } = action;
        this.#reader.forget(ref);
        await deleted(context, ref, uid);
        return resource;
      }
      case "growClaim":
        await this.#grow(resource, action, context);
        return resource;
      case "reEnroll": {
        const { ordinal, id, handled, unlessVerified } = action;
        if (unlessVerified === true) {
          // What was seen may be from the middle of its enrollment, which would be undone.
          const { data } = await network.client.detailEdgeRouter({ params: { id } }, { signal });
          if (data.isVerified) return resource;
        }
        await network.client.reEnrollEdgeRouter({ params: { id } }, { signal });
        if (handled === undefined) this.#reEnrolled.set(id, context.now().getTime());
        const others = (resource.status.routers ?? []).filter((each) => each.ordinal !== ordinal);
        const mine = afterReEnroll({ ...statusOfRouter(resource, ordinal), ordinal, id });
        const routers = [...others, mine].sort((a, b) => a.ordinal - b.ordinal);
        return await context.keep({ routers, ...(handled === undefined ? {} : { lastHandledReEnroll: handled }) });
      }
      case "stopTraversal":
        await network.client.patchEdgeRouter({ params: { id: action.id }, body: { noTraversal: true } }, { signal });
        return resource;
      case "removeEntity": {
        const result = await removeEntity(resource, action.ordinal, network, context);
        if (result.state === "blocked") throw new RemovalBlockedError(result.message);
        return resource;
      }
    }
  }

  /** Needs no network. */
  async apply(object: KubeObject, context: RouterContext): Promise<void> {
    const kind = TABLE.of(object);
    try {
      this.#reader.wrote(kind, await applyChild(object, context));
    } catch (error) {
      if (!(kind === KINDS.ServiceMonitor && error instanceof KubeError && error.isNotFound)) throw error;
      const note =
        "the cluster knows no ServiceMonitors: install the Prometheus operator, or set spec.serviceMonitor.enabled to false";
      context.recordEvent({ type: "Warning", reason: "ServiceMonitorUnknown", action: "Apply", note });
    }
  }

  async #grow(
    { metadata }: EdgeRouterResource,
    { name, size }: Extract<RouterAction, { type: "growClaim" }>,
    context: RouterContext,
  ): Promise<void> {
    const { client, signal } = context;
    const { namespace } = metadata;
    const patch = { spec: { resources: { requests: { storage: size } } } };
    try {
      await client.patch({ kind: KINDS.PersistentVolumeClaim, namespace, name }, patch, { signal });
    } catch (error) {
      if (!(error instanceof KubeError) || !(error.isInvalid || error.isForbidden)) throw error;
      this.#notGrown.set(keyFor(namespace, name), { size, until: context.now().getTime() + GROW_AGAIN_MS });
      const note = `the volume ${name} could not be made ${size}: ${error.message}`;
      context.recordEvent({ type: "Warning", reason: "VolumeNotGrown", action: "Apply", note });
    }
  }
}

/** The network keeps an entity for others. */
export class RemovalBlockedError extends Error {
  override readonly name = "RemovalBlockedError";
}

export async function deleted(
  { client, signal }: RouterContext,
  ref: Parameters<typeof client.delete>[0],
  uid: string | undefined,
): Promise<void> {
  try {
    await client.delete(ref, { propagation: "Background", signal, uid });
  } catch (error) {
    // Another object has its name by now: that one is seen at the next look.
    if (!(error instanceof KubeError) || !error.isConflict) throw error;
  }
}

function removeEntity(
  resource: EdgeRouterResource,
  ordinal: number,
  { client }: UsableNetwork,
  { cluster, signal }: RouterContext,
): Promise<RemovalResult> {
  const owner = ownerOf(resource, cluster, ordinal);
  const known = knownOf(statusOfRouter(resource, ordinal));
  return edgeRouterSync.remove(client, ofOrdinal(resource, ordinal), known, owner, signal);
}
