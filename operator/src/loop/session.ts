import type { Logger } from "@sallyport/wire";
import type { Admissions } from "../children/intent.ts";
import type { NetworkClients } from "../controller-client/network-clients.ts";
import type { KubeClient } from "../kube/client/client.ts";
import type { LeaderCheck } from "../kube/election/elector.ts";
import type { EventNote, EventRecorder } from "../kube/events/recorder.ts";
import type { KubeObject, ResourceKind } from "../kube/kinds.ts";
import type { Metrics } from "../kube/metrics.ts";
import type { AnyResource, Known, OwnStatus, ReconcileContext } from "./kind-reconciler.ts";
import type { NamedWatches } from "./named-watches.ts";
import type { ResourceWriter } from "./resource-writer.ts";
import { nextStatus, ownStatus } from "./status.ts";

/** What all reconciles share. */
export interface LoopParts {
  readonly client: KubeClient;
  readonly networks: NetworkClients;
  readonly mayAct: LeaderCheck;
  readonly known: Known;
  readonly named: NamedWatches;
  readonly admissions: Admissions;
  readonly recorder: Pick<EventRecorder, "record">;
  readonly metrics: Metrics;
  readonly log: Logger;
  /** Known once the cluster was asked. */
  readonly cluster: () => string;
  readonly now: () => Date;
  /** Every resource is looked at again after this time, give or take a tenth, milliseconds. */
  readonly resyncMs: number;
}

interface SessionOptions<R extends AnyResource> {
  readonly parts: LoopParts;
  readonly resource: R;
  readonly id: string;
  readonly writer: ResourceWriter<R>;
  readonly signal: AbortSignal;
  readonly onRead: () => void;
}

/** One reconcile of one resource: what its kind is given, and what was read meanwhile. */
export class Session<R extends AnyResource> implements ReconcileContext<R> {
  readonly client: KubeClient;
  readonly networks: NetworkClients;
  readonly mayAct: LeaderCheck;
  readonly known: Known;
  readonly cluster: string;
  readonly metrics: Metrics;
  readonly admissions: Admissions;
  readonly signal: AbortSignal;
  readonly log: Logger;
  readonly id: string;
  /** As it is now, with what was written in this reconcile. */
  resource: R;
  readonly #o: SessionOptions<R>;
  readonly #read: { kind: ResourceKind; namespace: string; name: string }[] = [];

  constructor(o: SessionOptions<R>) {
    const { parts, resource, id } = o;
    const { namespace, name, generation } = resource.metadata;
    this.#o = o;
    this.resource = resource;
    this.id = id;
    this.client = parts.client;
    this.networks = parts.networks;
    this.mayAct = parts.mayAct;
    this.known = parts.known;
    this.cluster = parts.cluster();
    this.metrics = parts.metrics;
    this.admissions = parts.admissions;
    this.signal = o.signal;
    this.log = logWith(parts.log, { kind: resource.kind, namespace, name, generation, reconcile: id });
  }

  now(): Date {
    return this.#o.parts.now();
  }

  recordEvent(event: EventNote): void {
    this.#o.parts.recorder.record(this.resource as R & KubeObject, event);
  }

  async keep(fields: Partial<OwnStatus<R>>): Promise<R> {
    const { conditions = [] } = this.resource.status;
    const own = { ...ownStatus(this.resource), ...fields };
    // Nothing is decided yet: only what was given is added.
    const { observedGeneration, lastHandledReconcileAt } = this.resource.status;
    const status = { ...own, observedGeneration, lastHandledReconcileAt, conditions };
    this.resource = await this.#o.writer.status(this.resource, JSON.parse(JSON.stringify(status)), this.signal);
    return this.resource;
  }

  async read<T extends KubeObject>(kind: ResourceKind, name: string): Promise<T | undefined> {
    const { namespace } = this.resource.metadata;
    this.#read.push({ kind, namespace, name });
    const object = await this.client.get<T>({ kind, namespace, name }, { signal: this.signal });
    const version = object?.metadata.resourceVersion;
    this.#o.parts.named.use(this.#user, kind, namespace, name, version, this.#o.onRead);
    return object;
  }

  /** Nothing that was read before and not this time is watched any more. Not for reconciles that broke off: they did not come to all of it. */
  settleReads(): void {
    this.#o.parts.named.keepOnly(this.#user, this.#read);
  }

  /** Writes the status where it differs. */
  async write(draft: Parameters<typeof nextStatus<R>>[1]): Promise<void> {
    this.resource = await this.#o.writer.status(
      this.resource,
      nextStatus(this.resource, draft, this.now()),
      this.signal,
    );
  }

  get #user(): string {
    const { kind, metadata } = this.resource;
    return `${kind} ${metadata.namespace}/${metadata.name}`;
  }
}

function logWith(log: Logger, fields: object): Logger {
  return {
    debug: (more, text) => log.debug({ ...fields, ...more }, text),
    info: (more, text) => log.info({ ...fields, ...more }, text),
    warn: (more, text) => log.warn({ ...fields, ...more }, text),
    error: (more, text) => log.error({ ...fields, ...more }, text),
  };
}
