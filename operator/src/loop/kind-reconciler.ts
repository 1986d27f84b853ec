import type { BaseStatus, Resource } from "@sallyport/resources";
import type { Logger } from "@sallyport/wire";
import type { Admissions } from "../children/intent.ts";
import type { NetworkClients } from "../controller-client/network-clients.ts";
import type { KubeClient } from "../kube/client/client.ts";
import type { ConditionDraft } from "../kube/conditions.ts";
import type { LeaderCheck } from "../kube/election/elector.ts";
import type { EventNote } from "../kube/events/recorder.ts";
import type { KubeObject, ObjectKey, ResourceKind } from "../kube/kinds.ts";
import type { Metrics } from "../kube/metrics.ts";

/** Any of our resources, as its kind's reconciler sees it. */
export type AnyResource = Resource<object, BaseStatus>;

/** Names another resource of the same namespace; `kind` is one of our kinds, such as `OverlayService`. */
interface ResourceName {
  readonly kind: string;
  readonly name: string;
}

/** The fields of a status that its kind alone decides; the loop writes the others. */
export type OwnStatus<R extends AnyResource> = Omit<R["status"], keyof BaseStatus>;

/** What a reconcile came to (docs/operator/loop.md). The loop writes it where it differs from what is there. */
export interface Outcome<R extends AnyResource = AnyResource> {
  /** All conditions that apply now, in the order to show; others are taken away. `Ready` is among them. */
  readonly conditions: readonly ConditionDraft[];
  /** The whole of the kind's own fields: what is left out leaves the status. */
  readonly status: OwnStatus<R>;
  /** What happened. That `Ready` changed is told by the loop. */
  readonly events?: readonly EventNote[];
  /** Look again after this time, when it is long up to five seconds later; the loop looks again every ten minutes anyway. */
  readonly requeueAfterMs?: number | undefined;
  /**
   * It waits for others that were perhaps declared together with it: a resource that shows nothing for its spec yet shows this only when it is still so
   * after a moment.
   */
  readonly mayPassAtOnce?: boolean;
  /** Something failed that may pass: look again later and later. `conditions` say what. */
  readonly isFailure?: boolean;
}

/**
 * How the clean-up of a resource that is being deleted stands. `gone`: nothing of it is left in the network. `released`: what is there stays and
 * has no owner. Both release the resource. `blocked`: it has to wait; the loop shows `DeletionBlocked` and the way out, and comes back later and later.
 */
export type Removal =
  | { readonly state: "gone" | "released"; readonly events?: readonly EventNote[] }
  | {
      readonly state: "blocked";
      /** Default `InUse`. */
      readonly reason?: string;
      /** What it waits for. */
      readonly message: string;
      readonly requeueAfterMs?: number | undefined;
    };

/** Resources and children as the watches know them: at most a moment old. Callers must not change them. */
export interface Known {
  /** One of our resources. */
  resource<R extends AnyResource>(kind: string, namespace: string, name: string): R | undefined;
  /** All of our resources of a kind, in a namespace or everywhere. */
  resources<R extends AnyResource>(kind: string, namespace?: string): R[];
  /** A child of a kind that a reconciler {@link KindReconciler.owns}. Secrets and ConfigMaps come without their data. */
  child<T extends KubeObject>(kind: ResourceKind, namespace: string, name: string): T | undefined;
  /** The children of a kind: by owner reference, or by the labels `sallyport.dev/owner-kind` and `sallyport.dev/owner-name`. */
  childrenOf<T extends KubeObject>(kind: ResourceKind, owner: AnyResource): T[];
  /** Our resources of the namespace that refer to this one, by `networkRef` or in another way. */
  referrersOf(resource: AnyResource): AnyResource[];
}

/** What {@link KindReconciler.follow} works with. */
export interface FollowContext {
  readonly networks: Pick<NetworkClients, "forNetwork">;
  readonly known: Pick<Known, "resources">;
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** Looks at a resource of the kind. */
  readonly wake: (key: ObjectKey) => void;
}

/** What a reconciler works with. One for each reconcile. */
export interface ReconcileContext<R extends AnyResource = AnyResource> {
  readonly client: KubeClient;
  readonly networks: NetworkClients;
  readonly known: Known;
  /** Which operator this is, for ownership tags: the UID of the namespace `kube-system`, or what was configured. */
  readonly cluster: string;
  /** Ends with the program and with the time of this reconcile. */
  readonly signal: AbortSignal;
  /** Says kind, namespace, name, generation and the id of this reconcile on every line. No secrets. */
  readonly log: Logger;
  readonly metrics: Metrics;
  /** What the API server made of children. */
  readonly admissions: Admissions;
  /**
   * To be called right before every request that changes something and goes neither through `client` nor through `networks`, which ask by themselves:
   * this process may lead no longer, and not know it yet.
   */
  readonly mayAct: LeaderCheck;
  /** The clock: tests set it. */
  now(): Date;
  /** Records an event at once, for a reconcile that may fail after it. */
  recordEvent(event: EventNote): void;
  /**
   * Writes fields of the status at once, before anything else is done: what was created must never be forgotten. Other fields stay. Answers the
   * resource as it is then.
   */
  keep(status: Partial<OwnStatus<R>>): Promise<R>;
  /**
   * Reads a Secret or ConfigMap of the resource's namespace from the server, with its data. From then on a change of it, also that it appears, wakes this
   * resource, as long as its reconciles go on reading it.
   */
  read<T extends KubeObject>(kind: ResourceKind, name: string): Promise<T | undefined>;
}

/**
 * One kind: what the loop can't know about it. Everything here may be called again at any point, also after a crash in the middle.
 * What `reconcile` and `remove` throw the loop turns into conditions: failures of a network, refusals of the API server (a missing right is named), and
 * anything else as a fault of the program.
 */
export interface KindReconciler<R extends AnyResource = AnyResource> {
  readonly kind: ResourceKind;
  /**
   * Kinds of the children: a change of one wakes its owner. Only those with the label `app.kubernetes.io/managed-by: sallyport` are seen. What Kubernetes
   * makes from a template (pods, claims) names its owner by the labels `sallyport.dev/owner-kind` and `sallyport.dev/owner-name`. Every cluster has to
   * know these kinds.
   */
  readonly owns?: readonly ResourceKind[];
  /** Resources of one namespace at the same time; default 8. Twice as many of all together. */
  readonly concurrency?: number;
  /** Other resources that this one refers to, besides `spec.networkRef`: their ids and their going wake it. */
  references?(resource: R): readonly ResourceName[];
  reconcile(resource: R, context: ReconcileContext<R>): Promise<Outcome<R>>;
  /**
   * Undoes what the resource did outside of the cluster. Not called when its Network is gone, or is a managed one that is being deleted, nor with the
   * annotation force-orphan.
   */
  remove?(resource: R, context: ReconcileContext<R>): Promise<Removal>;
  /**
   * Runs beside the reconciles of a leader until the signal ends it. Wakes resources after changes that networks do not announce. Never throws: it asks
   * again when a network is away.
   */
  readonly follow?: ((context: FollowContext) => Promise<void>) | undefined;
  /** Called in place of `remove` in those cases, for what stays in the cluster; may not ask the network. */
  abandon?(resource: R, context: ReconcileContext<R>): Promise<void>;
}
