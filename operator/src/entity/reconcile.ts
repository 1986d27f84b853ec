import type { ManagementClient } from "@sallyport/api/client";
import {
  type BaseStatus,
  type EntityKind,
  type EntitySpec,
  type FoundEntity,
  missingReason,
  missingText,
  networkRefOf,
  ownerOf,
  type Resource,
} from "@sallyport/resources";
import { type Collection, EntitySync, type SyncResult } from "@sallyport/resources/sync";
import type { UsableNetwork } from "../controller-client/network-clients.ts";
import type { Condition, ConditionDraft } from "../kube/conditions.ts";
import type { ResourceKind } from "../kube/kinds.ts";
import type {
  FollowContext,
  KindReconciler,
  Outcome,
  OwnStatus,
  ReconcileContext,
  Removal,
} from "../loop/kind-reconciler.ts";
import { entityConditions, OBSERVED, syncedReason, unready, wasObserved } from "../loop/status.ts";
import { knownReferences } from "./known-references.ts";

/** Status of a kind that stands for one entity. */
interface EntityStatus extends BaseStatus {
  readonly id?: string | undefined;
}

type EntityResourceOf<Spec extends EntitySpec, Status extends EntityStatus> = Resource<Spec, Status>;

/** What could not be looked up: shown instead of what the entity is. */
export class LookUpProblem {
  readonly reason: string;
  readonly message: string;
  /** A person has to act; else it may pass by itself. */
  readonly isStalled: boolean;

  constructor(reason: string, message: string, o: { readonly isStalled: boolean }) {
    this.reason = reason;
    this.message = message;
    this.isStalled = o.isStalled;
  }
}

/** One kind that stands for one entity of a network: the pure part, the calls, and what else it looks up and tells. */
interface EntityWiring<
  Spec extends EntitySpec,
  Status extends EntityStatus,
  Fields extends object,
  Found extends FoundEntity,
  More extends object,
> {
  readonly kind: ResourceKind;
  readonly entity: EntityKind<Spec, Fields, Found, More>;
  readonly collection: Collection<Fields, Found>;
  /** What the plan needs besides references; absent: nothing. */
  readonly lookUp?: (
    resource: EntityResourceOf<Spec, Status>,
    context: ReconcileContext<EntityResourceOf<Spec, Status>>,
    network: UsableNetwork,
  ) => Promise<More | LookUpProblem>;
  /** Fields of the status besides the id. */
  readonly statusOf?: (
    client: ManagementClient,
    id: string,
    of: StatusSubject<Spec, More>,
    signal: AbortSignal,
  ) => Promise<OwnStatus<EntityResourceOf<Spec, Status>>>;
  /** Conditions of the kind beside those of its entity. */
  readonly conditionsOf?: (
    client: ManagementClient,
    id: string,
    of: { readonly status: OwnStatus<EntityResourceOf<Spec, Status>>; readonly previous: readonly Condition[] },
    signal: AbortSignal,
  ) => Promise<readonly ConditionDraft[]>;
  /**
   * What is told costs requests of its own and is not worth them when all are looked at because the program began: then what was told before stays until
   * the next usual look.
   */
  readonly keepsStatus?: true;
  /** Gets what went wrong and answers what is to be shown and logged of it. */
  readonly explain?: (error: unknown, spec: Spec, more: More, client: ManagementClient) => unknown;
  readonly follow?: (context: FollowContext) => Promise<void>;
  /** When to look again sooner than usual, by what is told and what was told before. */
  readonly requeueAfterMs?: (
    status: OwnStatus<EntityResourceOf<Spec, Status>>,
    before: OwnStatus<EntityResourceOf<Spec, Status>>,
  ) => number | undefined;
}

/** What something is told of. */
interface StatusSubject<Spec, More> {
  readonly spec: Spec;
  readonly more: More;
  /** The entity was made a moment ago. */
  readonly wasMade: boolean;
}

/** The reconciler of a kind that stands for one entity (docs/operator/entities.md). */
export function entityReconciler<
  Spec extends EntitySpec,
  Status extends EntityStatus,
  Fields extends object,
  Found extends FoundEntity,
  More extends object,
>(wiring: EntityWiring<Spec, Status, Fields, Found, More>): KindReconciler<EntityResourceOf<Spec, Status>> {
  type R = EntityResourceOf<Spec, Status>;
  const { kind, entity, collection } = wiring;
  const sync = new EntitySync<Spec, Fields, Found, More>(entity, collection);
  /** UIDs of resources that this process has looked at. */
  const reported = new Set<string>();
  const known = ({ status }: R) => ({ id: status.id, wasObserved: wasObserved(status.conditions) });

  async function reconcile(resource: R, context: ReconcileContext<R>): Promise<Outcome<R>> {
    const { namespace } = resource.metadata;
    const network = context.networks.forNetwork(networkRefOf(resource));
    const more = (await wiring.lookUp?.(resource, context, network)) ?? ({} as More);
    if (more instanceof LookUpProblem) return outcomeOfProblem(resource, more);
    const surroundings = {
      owner: ownerOf(resource, context.cluster),
      scope: { ...network.settings, namespace },
      references: knownReferences(resource, entity.references(resource.spec), context.known),
      ...more,
    };
    let identified: string | undefined;
    const onIdentified = async (id: string): Promise<void> => {
      identified = id;
    };
    const o = { signal: context.signal, onIdentified };
    try {
      const result = await sync.sync(network.client, resource, known(resource), surroundings, o);
      return await outcomeOf(resource, result, network.client, more, context);
    } catch (error) {
      // The tag would find it again; the id is what others refer to.
      if (identified !== undefined) await context.keep({ id: identified } as Partial<OwnStatus<R>>);
      throw wiring.explain?.(error, resource.spec, more, network.client) ?? error;
    }
  }

  async function outcomeOf(
    resource: R,
    result: SyncResult<Found>,
    client: ManagementClient,
    more: More,
    { signal }: ReconcileContext<R>,
  ): Promise<Outcome<R>> {
    const conditions = conditionsOfSync(result);
    const events = result.notes.map((note) => ({ ...note, action: "Sync" }));
    // What is not ours leaves no id behind: by that it would count as ours the next time.
    if (!("id" in result)) {
      const mayPassAtOnce = result.state === "waiting" && result.reason !== "NotInNetwork" && events.length === 0;
      return { conditions, events, status: {} as OwnStatus<R>, mayPassAtOnce };
    }
    const { observedGeneration, conditions: previous = [], lastHandledReconcileAt: _, ...before } = resource.status;
    const { uid, generation } = resource.metadata;
    const own = before as unknown as OwnStatus<R>;
    const isAtRest = observedGeneration === generation && resource.status.id === result.id && events.length === 0;
    const isKept = wiring.keepsStatus === true && !reported.has(uid) && isAtRest;
    if (wiring.keepsStatus === true) reported.add(uid);
    const wasMade = result.found === undefined;
    const of = { spec: resource.spec, more, wasMade };
    const shown = isKept ? own : await wiring.statusOf?.(client, result.id, of, signal);
    const status = { ...shown, id: result.id } as OwnStatus<R>;
    const requeueAfterMs = wiring.requeueAfterMs?.(status, own);
    const ofKind = await wiring.conditionsOf?.(client, result.id, { status, previous }, signal);
    return { conditions: [...conditions, ...(ofKind ?? [])], events, status, requeueAfterMs };
  }

  async function remove(resource: R, context: ReconcileContext<R>): Promise<Removal> {
    reported.delete(resource.metadata.uid);
    const { client } = context.networks.forNetwork(networkRefOf(resource));
    const owner = ownerOf(resource, context.cluster);
    const result = await sync.remove(client, resource, known(resource), owner, context.signal);
    if (result.state === "blocked") {
      return { state: "blocked", message: `the network refuses to delete it: ${result.message}` };
    }
    const { id } = resource.status;
    const named = `${entity.noun}${id === undefined ? "" : ` ${id}`}`;
    const note =
      result.state === "gone"
        ? `the network has no ${named} any more`
        : `the ${named} stays in the network and belongs to no resource`;
    const reason = result.state === "gone" ? "Deleted" : "Released";
    return { state: result.state, events: [{ type: "Normal", reason, action: "Delete", note }] };
  }

  const references = ({ spec }: R) => entity.references(spec);
  return { kind, references, reconcile, remove, follow: wiring.follow };
}

/** The entity stays as it is, and so does what is known of it. */
function outcomeOfProblem<R extends EntityResourceOf<EntitySpec, EntityStatus>>(
  { status }: R,
  { reason, message, isStalled }: LookUpProblem,
): Outcome<R> {
  const { observedGeneration, conditions, lastHandledReconcileAt, ...own } = status;
  const drafts: ConditionDraft[] = [
    { type: "Synced", status: "False", reason: syncedReason(conditions, reason), message },
    { type: "Ready", status: "False", reason, message },
    { type: isStalled ? "Stalled" : "Reconciling", status: "True", reason, message },
  ];
  return { conditions: drafts, status: own as OwnStatus<R> };
}

/** The conditions of a resource after its entity was looked at. */
export function conditionsOfSync(result: SyncResult<unknown>): ConditionDraft[] {
  switch (result.state) {
    case "conflict":
      return unready(result.reason, result.message, "Stalled");
    case "waiting":
      return unready(result.reason, result.message, "Reconciling");
    case "observed": {
      const { differences } = result;
      const ready = { status: "True", reason: OBSERVED, message: "the entity exists; it is only observed" } as const;
      if (differences.length === 0) return entityConditions(ready, ready);
      const message = `not as in the spec: ${differences.join(", ")}; managementPolicy Observe leaves that as it is`;
      return entityConditions({ status: "False", reason: OBSERVED, message }, ready);
    }
    case "synced": {
      if (result.missing.length > 0) {
        const { missing } = result;
        return unready(missingReason(missing), `${missingText(missing)}; the rest is in force`, "Reconciling");
      }
      const ready = { status: "True", reason: "Synced", message: "the network has it as in the spec" } as const;
      return entityConditions(ready, ready);
    }
  }
}
