import { randomBytes } from "node:crypto";
import { jittered } from "@sallyport/async";
import { FINALIZER, networkKind } from "@sallyport/resources";
import { failureOf, NetworkNotReadyError } from "../controller-client/errors.ts";
import { KubeError } from "../kube/client/errors.ts";
import { type Condition, type ConditionDraft, conditionOf } from "../kube/conditions.ts";
import { type KubeObject, keyOf, type ObjectKey, splitKey } from "../kube/kinds.ts";
import { type Priority, RetryLimiter, WorkQueue } from "../kube/queue/work-queue.ts";
import { type Result, Worker } from "../kube/queue/worker.ts";
import type { Change } from "../kube/watch/reflector.ts";
import { concernsItself } from "./changes.ts";
import { atSharedMoment, Refusals } from "./delays.ts";
import { type NetworkSeen, networkOf, neverInNetwork, type OrphanReason, orphanReasonOf } from "./deletion.ts";
import { type NextReconcile, type ReconcileFailure, reconcileFailureOf } from "./failure.ts";
import type { AnyResource, KindReconciler, Outcome, OwnStatus, Removal } from "./kind-reconciler.ts";
import { ResourceWriter } from "./resource-writer.ts";
import { type LoopParts, Session } from "./session.ts";
import { conditionsOfBlocked, conditionsOfPause, eventTypeOf, isPaused, ownStatus } from "./status.ts";

/** Failures wait no longer than this, milliseconds. */
const MAX_RETRY_MS = 300_000;
/** Most of their time is spent in waiting; what waits together is asked for together. */
const CONCURRENCY = 8;
/** What passes sooner than this is not worth a status and an event, milliseconds. */
const MOMENT_MS = 1_000;

/** What a resource shows says what is wrong: this only asks for another look, later and later. */
class NotInOrderError extends Error {
  override readonly name = "NotInOrderError";
}

/** The generic part of reconciling one kind (docs/operator/loop.md): what is due for a key, in which order, and what comes of it. */
export class KindLoop<R extends AnyResource> {
  readonly reconciler: KindReconciler<R>;
  readonly queue: WorkQueue;
  readonly #parts: LoopParts;
  readonly #writer: ResourceWriter<R>;
  readonly #worker: Worker;
  /** Resources that wait and do not show it yet: since when, for which generation. */
  readonly #waiting = new Map<ObjectKey, { readonly generation: number; readonly since: number }>();
  /** Resources that changed while they were being worked on, which may have been our own doing. */
  readonly #doubtful = new Set<ObjectKey>();
  /** Resources that are being looked at, and those that were not in order when they were. */
  readonly #unsettled = new Set<ObjectKey>();

  readonly #refusals = new Refusals();

  constructor(reconciler: KindReconciler<R>, parts: LoopParts) {
    const { kind } = reconciler.kind;
    const { metrics, log } = parts;
    // One namespace alone, whose network may hang, has half of the workers.
    const concurrency = 2 * (reconciler.concurrency ?? CONCURRENCY);
    const name = kind.toLowerCase();
    this.reconciler = reconciler;
    this.#parts = parts;
    this.#writer = new ResourceWriter(parts.client, reconciler.kind);
    this.queue = new WorkQueue({
      limiter: new RetryLimiter({ maxMs: MAX_RETRY_MS }),
      metrics: metrics.queue(name),
      workers: concurrency,
    });
    metrics.watchQueue(name, this.queue);
    this.#worker = new Worker({
      name: kind,
      queue: this.queue,
      concurrency,
      work: (key, signal) => this.#workOn(key, signal),
      isExpected: (error) => error instanceof NotInOrderError || failureOf(error) !== undefined,
      log,
      metrics: metrics.worker(name, concurrency),
    });
  }

  /** Works until the signal ends it, and then until what is under way has ended. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#worker.run(signal);
  }

  /** The watch told a change of a resource of this kind. */
  changed({ type, object, previous }: Change<R & KubeObject>): void {
    const key = keyOf(object);
    const { latest } = this.#writer;
    const isOwn = latest.isOwn(key, object);
    if (!this.queue.working.has(key)) latest.watched(key, object);
    if (type !== "delete" && !concernsItself(previous, object, isOwn)) return;
    // A change of the status while we are at work on it is most likely ours, whose answer is still on its way.
    const isDoubtful = type !== "delete" && this.queue.working.has(key) && !concernsItself(previous, object, true);
    if (isDoubtful) this.#doubtful.add(key);
    else this.enqueue(key);
  }

  /** Work ended: decides whether changes that came meanwhile were ours. */
  #settle(key: ObjectKey): void {
    const isDoubtful = this.#doubtful.delete(key);
    const { namespace = "", name } = splitKey(key);
    const now = this.#parts.known.resource<R>(this.reconciler.kind.kind, namespace, name) as
      | (R & KubeObject)
      | undefined;
    if (now === undefined) return;
    const { latest } = this.#writer;
    if (isDoubtful && !latest.isOwn(key, now) && latest.of(key, now) === now) this.enqueue(key);
    // The watch may have told what was written before the answer came.
    latest.watched(key, now);
  }

  enqueue(key: ObjectKey, priority: Priority = "change"): void {
    this.queue.add(key, priority);
  }

  /** Whether the last look at the resource did not come to what was wanted, or is still under way. */
  isUnsettled(key: ObjectKey): boolean {
    return this.#unsettled.has(key);
  }

  async #workOn(key: ObjectKey, signal: AbortSignal): Promise<Result> {
    try {
      return atSharedMoment(await this.#work(key, signal), performance.now());
    } finally {
      this.#settle(key);
    }
  }

  async #work(key: ObjectKey, signal: AbortSignal): Promise<Result> {
    const { kind } = this.reconciler.kind;
    const { namespace = "", name } = splitKey(key);
    const watched = this.#parts.known.resource<R>(kind, namespace, name);
    if (watched === undefined) {
      this.#unsettled.delete(key);
      this.#writer.forget(key);
      this.#waiting.delete(key);
      this.#refusals.forget(key);
      this.#parts.named.keepOnly(`${kind} ${key}`, []);
      this.#parts.metrics.forgetResource({ kind, namespace, name });
      return undefined;
    }
    this.#unsettled.add(key);
    const session = new Session<R>({
      parts: this.#parts,
      resource: this.#writer.latest.of(key, watched as R & KubeObject),
      id: randomBytes(5).toString("hex"),
      writer: this.#writer,
      signal,
      onRead: () => this.enqueue(key),
    });
    const { deletionTimestamp } = session.resource.metadata;
    if (deletionTimestamp !== undefined) return await this.#delete(session);
    if (isPaused(session.resource)) return await this.#pause(session);
    return await this.#reconcile(session);
  }

  async #pause(session: Session<R>): Promise<undefined> {
    const conditions = conditionsOfPause(session.resource.status.conditions ?? []);
    await session.write({ conditions, own: ownStatus(session.resource), isObserved: false });
  }

  async #reconcile(session: Session<R>): Promise<Result> {
    const before = session.resource.status.conditions ?? [];
    try {
      session.resource = await this.#writer.addFinalizer(session.resource, session.signal);
      const outcome = await this.reconciler.reconcile(session.resource, session);
      session.settleReads();
      const momentMs = this.#momentLeft(session.resource, outcome);
      if (momentMs > 0) return { requeueAfterMs: momentMs };
      for (const event of outcome.events ?? []) session.recordEvent(event);
      // That something was made or changed says that it is in order now.
      const isTold = outcome.events?.some(({ type }) => type === "Normal") ?? false;
      await this.#show(session, before, outcome.conditions, outcome.status, isTold);
      this.#refusals.forget(keyOf(session.resource));
      const isSettled = readyOf(outcome.conditions)?.status === "True" && outcome.isFailure !== true;
      if (isSettled) this.#unsettled.delete(keyOf(session.resource));
      if (outcome.isFailure) throw new NotInOrderError(readyOf(outcome.conditions)?.message ?? "not in order yet");
      return { requeueAfterMs: Math.min(outcome.requeueAfterMs ?? Number.POSITIVE_INFINITY, this.#resyncMs()) };
    } catch (error) {
      if (error instanceof NotInOrderError) throw error;
      session.signal.throwIfAborted();
      return await this.#fail(session, before, error);
    }
  }

  /** How long what comes of a first look need not be shown yet. */
  #momentLeft({ metadata, status }: R, { mayPassAtOnce }: Pick<Outcome<R>, "mayPassAtOnce">): number {
    const { generation } = metadata;
    const key = keyOf({ metadata });
    if (!mayPassAtOnce || status.observedGeneration === generation) {
      this.#waiting.delete(key);
      return 0;
    }
    const known = this.#waiting.get(key);
    const since = known?.generation === generation ? known.since : performance.now();
    this.#waiting.set(key, { generation, since });
    return since + MOMENT_MS - performance.now();
  }

  async #fail(session: Session<R>, before: readonly Condition[], error: unknown): Promise<Result> {
    const failure = this.#failureOf(session, before, error);
    if (failure === undefined) return { requeueAfterMs: this.#resyncMs() };
    // Of a folder that is applied the Network may come after what refers to it.
    const momentMs = this.#momentLeft(session.resource, { mayPassAtOnce: failure.reason === "NetworkNotFound" });
    if (momentMs > 0) return { requeueAfterMs: momentMs };
    const refusedMs = this.#refusalLeft(session.resource, failure);
    if (refusedMs > 0) return { requeueAfterMs: refusedMs };
    if (failure.conditions !== undefined) {
      await this.#showFailure(session, before, failure, failure.conditions, error);
    }
    return this.#next(session, failure.next, error);
  }

  /** How long the lack of a right need not be shown yet. */
  #refusalLeft(resource: R, { reason }: ReconcileFailure): number {
    const key = keyOf(resource);
    if (reason === "MissingPermission") return this.#refusals.leftMs(key);
    this.#refusals.forget(key);
    return 0;
  }

  async #showFailure(
    session: Session<R>,
    before: readonly Condition[],
    failure: ReconcileFailure,
    conditions: readonly ConditionDraft[],
    error: unknown,
  ): Promise<void> {
    try {
      await this.#show(session, before, conditions, ownStatus(session.resource));
    } catch (second) {
      // What can't be shown in the status, for lack of that very right, is told in an event and in the log.
      const { reason, message } =
        second instanceof KubeError && second.isForbidden
          ? { reason: "MissingPermission", message: second.message }
          : failure;
      session.recordEvent({ type: "Warning", reason, action: "Reconcile", note: message });
      session.log.warn({ err: second }, "the status could not be written");
      throw error;
    }
  }

  /** Undefined: the Network is known and was not looked at yet, which is a matter of a moment; it wakes us. */
  #failureOf(session: Session<R>, previous: readonly Condition[], error: unknown): ReconcileFailure | undefined {
    const { resource, id, log } = session;
    const network = this.#networkOf(resource);
    const isUnknown = error instanceof NetworkNotReadyError && error.reason === "NetworkNotFound";
    const told = isUnknown && network !== undefined ? notReadyError(network) : error;
    if (told === undefined) return undefined;
    const failure = reconcileFailureOf(told, { previous, generation: resource.metadata.generation, reconcileId: id });
    if (failure.reason === "InternalError") log.error({ err: error }, "a fault of the operator");
    return failure;
  }

  #next(session: Session<R>, next: NextReconcile, error: unknown): Result {
    if (next === "later") throw error;
    session.log.debug({ err: error, next }, "waits");
    return { requeueAfterMs: next === "change" ? this.#resyncMs() : next.afterMs };
  }

  /** Takes the resource's effects away and lets it go, or shows why that has to wait. */
  async #delete(session: Session<R>): Promise<Result> {
    const { resource } = session;
    if (!resource.metadata.finalizers?.includes(FINALIZER) || this.#writer.hasReleased(resource)) return undefined;
    const before = resource.status.conditions ?? [];
    const orphanReason = orphanReasonOf(resource, this.#networkOf(resource));
    try {
      if (orphanReason?.reason === "NetworkGone" && (await this.#hasNetwork(session))) {
        throw new NotInOrderError("the watch does not know the resource's Network yet");
      }
      const removal = orphanReason === undefined ? await this.reconciler.remove?.(resource, session) : undefined;
      if (removal?.state === "blocked") return await this.#block(session, before, removal);
      for (const event of removal?.events ?? []) session.recordEvent(event);
      if (orphanReason !== undefined) return await this.#orphan(session, orphanReason);
      await this.#writer.dropFinalizer(session.resource, session.signal);
      session.log.info({ state: removal?.state ?? "gone" }, "let go");
      return undefined;
    } catch (error) {
      if (error instanceof NotInOrderError) throw error;
      session.signal.throwIfAborted();
      if (error instanceof NetworkNotReadyError && error.reason === "NetworkLost" && orphanReason === undefined) {
        const note = `${error.message}; what the resource has in the network is left there`;
        return await this.#orphan(session, { reason: "NetworkLost", note });
      }
      const failure = this.#failureOf(session, before, error);
      if (failure === undefined) return { requeueAfterMs: this.#resyncMs() };
      const nothing = neverInNetwork(resource, this.#networkOf(resource), failure.reason);
      if (nothing !== undefined) return await this.#orphan(session, nothing);
      const refusedMs = this.#refusalLeft(resource, failure);
      if (refusedMs > 0) return { requeueAfterMs: refusedMs };
      if (failure.conditions !== undefined) {
        const conditions = conditionsOfBlocked(resource, failure, before);
        await this.#showFailure(session, before, failure, conditions, error);
      }
      return this.#next(session, failure.next, error);
    }
  }

  /** Lets the resource go, and leaves what it has in the network. */
  async #orphan(session: Session<R>, { reason, note }: OrphanReason): Promise<undefined> {
    await this.reconciler.abandon?.(session.resource, session);
    session.recordEvent({ type: reason === "NeverInNetwork" ? "Normal" : "Warning", reason, action: "Delete", note });
    await this.#writer.dropFinalizer(session.resource, session.signal);
    session.log.info({ state: reason }, "let go");
  }

  async #block(
    session: Session<R>,
    before: readonly Condition[],
    { reason = "InUse", message, requeueAfterMs }: Extract<Removal, { state: "blocked" }>,
  ): Promise<Result> {
    const conditions = conditionsOfBlocked(session.resource, { reason, message }, before);
    await this.#show(session, before, conditions, ownStatus(session.resource));
    if (requeueAfterMs === undefined) throw new NotInOrderError(`the deletion waits: ${message}`);
    return { requeueAfterMs };
  }

  /** Writes the status where it differs, and tells that `Ready` changed. */
  async #show(
    session: Session<R>,
    before: readonly Condition[],
    conditions: readonly ConditionDraft[],
    own: OwnStatus<R>,
    isTold = false,
  ): Promise<void> {
    await session.write({ conditions, own, isObserved: true });
    const { namespace, name } = session.resource.metadata;
    const ready = readyOf(conditions);
    const isReady = ready?.status === "True";
    this.#parts.metrics.resourceReady({ kind: this.reconciler.kind.kind, namespace, name }, isReady);
    const was = conditionOf(before, "Ready");
    if (ready === undefined || (was?.status === ready.status && was.reason === ready.reason)) return;
    const { reason, message } = ready;
    const shown = conditions.find(({ type }) => type === "DeletionBlocked") ?? ready;
    if (!isReady || !isTold)
      session.recordEvent({ type: eventTypeOf(conditions), reason, action: "Reconcile", note: shown.message });
    session.log.info({ ready: ready.status, reason, message }, isReady ? "ready" : "not ready");
  }

  #networkOf(resource: R): (AnyResource & NetworkSeen) | undefined {
    const name = networkOf(resource);
    return name === undefined ? undefined : this.#parts.known.resource("Network", resource.metadata.namespace, name);
  }

  /** Asks the server: what a watch does not know may be there, and what is left behind in a network stays there for good. */
  async #hasNetwork({ resource, client, signal }: Session<R>): Promise<boolean> {
    const { namespace } = resource.metadata;
    const ref = { kind: networkKind, namespace, name: networkOf(resource) ?? "" };
    return (await client.get(ref, { signal })) !== undefined;
  }

  #resyncMs(): number {
    return jittered(this.#parts.resyncMs, [0.9, 1.1]);
  }
}

/** What a Network says of itself that was looked at and could not be put into use. Undefined: it says nothing yet, or that it is in order. */
function notReadyError({ metadata, status }: AnyResource): NetworkNotReadyError | undefined {
  const ready = conditionOf(status.conditions, "Ready");
  if (ready?.status !== "False") return undefined;
  return new NetworkNotReadyError("NetworkNotReady", `the Network ${metadata.name} is not ready: ${ready.message}`);
}

const readyOf = (conditions: readonly ConditionDraft[]): ConditionDraft | undefined =>
  conditions.find(({ type }) => type === "Ready");
