import {
  apiVersionOf,
  collectionPath,
  KINDS,
  KindTable,
  type KubeObject,
  type ObjectRef,
  objectPath,
  query,
  type ResourceKind,
  refOf,
} from "../kinds.ts";
import type {
  ApplyOptions,
  CallOptions,
  DeleteOptions,
  KubeClient,
  KubeList,
  ListOptions,
  MergePatch,
  TokenOptions,
  WatchEvent,
  WatchOptions,
  WriteOptions,
} from "./client.ts";
import type { Cluster } from "./cluster.ts";
import { KubeError } from "./errors.ts";
import { Transport, type TransportMetrics, type TransportRequest } from "./transport.ts";
import { watchEvents } from "./watch.ts";

const PAGE = 500;
/** A list that grows old while it is read is started again, but not forever. */
const LIST_ATTEMPTS = 5;

interface HttpKubeClientOptions {
  /** Name of this program as owner of fields; default `sallyport`. */
  readonly manager?: string;
  readonly userAgent?: string;
  /** Kinds besides those of Kubernetes. */
  readonly kinds?: Iterable<ResourceKind>;
  readonly metrics?: TransportMetrics;
  /** Bytes of one answer. */
  readonly bodyLimit?: number;
  /** A watch that is silent for this long is taken for ended; milliseconds. */
  readonly silenceMs?: number;
}

interface RawList {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string };
  readonly items?: KubeObject[] | null;
}

/** A client over HTTP with kept connections. Close it. */
export class HttpKubeClient implements KubeClient {
  readonly #transport: Transport;
  readonly #kinds: KindTable;
  readonly #manager: string;
  readonly #silenceMs: number | undefined;

  constructor(cluster: Cluster, o: HttpKubeClientOptions = {}) {
    const { manager = "sallyport", userAgent = "sallyport-operator", kinds, metrics, bodyLimit } = o;
    this.#transport = new Transport(cluster, { userAgent, metrics, bodyLimit });
    this.#kinds = new KindTable(kinds);
    this.#manager = manager;
    this.#silenceMs = o.silenceMs;
  }

  async get<T extends KubeObject>(ref: ObjectRef, o?: CallOptions): Promise<T | undefined> {
    return await orUndefined(this.#send<T>({ method: "GET", path: objectPath(ref), isRepeatable: true }, o));
  }

  async list<T extends KubeObject>(kind: ResourceKind, namespace?: string, o: ListOptions = {}): Promise<KubeList<T>> {
    for (let left = LIST_ATTEMPTS - 1; ; left -= 1) {
      try {
        return await this.#pages<T>(kind, namespace, o);
      } catch (error) {
        // The place to go on from is forgotten: start again.
        if (!(error instanceof KubeError && error.isGone) || left === 0) throw error;
      }
    }
  }

  async #pages<T extends KubeObject>(
    kind: ResourceKind,
    namespace: string | undefined,
    o: ListOptions,
  ): Promise<KubeList<T>> {
    const { limit = PAGE, labelSelector, fieldSelector, resourceVersion } = o;
    const about = { apiVersion: apiVersionOf(kind), kind: kind.kind };
    const items: T[] = [];
    let next: string | undefined;
    for (;;) {
      const place = next === undefined ? { resourceVersion } : { continue: next };
      const path = collectionPath(kind, namespace) + query({ limit, labelSelector, fieldSelector, ...place });
      const page = await this.#send<RawList>({ method: "GET", path, isRepeatable: true }, o);
      for (const item of page.items ?? []) items.push({ ...about, ...item } as T);
      next = page.metadata?.continue || undefined;
      if (next === undefined) return { items, resourceVersion: page.metadata?.resourceVersion ?? "" };
    }
  }

  async apply<T extends KubeObject>(object: KubeObject, o: ApplyOptions = {}): Promise<T> {
    const { status, force = true, dryRun } = o;
    const fieldManager = o.manager ?? (status ? `${this.#manager}-status` : this.#manager);
    const path =
      objectPath(this.#refOf(object), status ? "status" : undefined) +
      query({ fieldManager, force, dryRun: dryRun ? "All" : undefined });
    return await this.#send<T>(
      { method: "PATCH", path, contentType: "application/apply-patch+yaml", body: object, isRepeatable: true },
      o,
    );
  }

  async create<T extends KubeObject>(object: KubeObject, o: WriteOptions = {}): Promise<T> {
    const path = collectionPath(this.#kinds.of(object), object.metadata.namespace) + this.#written(o);
    return await this.#send<T>({ method: "POST", path, body: object, isRepeatable: false }, o);
  }

  async replace<T extends KubeObject>(object: KubeObject, o: WriteOptions = {}): Promise<T> {
    const path = objectPath(this.#refOf(object), o.status ? "status" : undefined) + this.#written(o);
    return await this.#send<T>({ method: "PUT", path, body: object, isRepeatable: false }, o);
  }

  async patch<T extends KubeObject>(ref: ObjectRef, mergePatch: MergePatch, o: WriteOptions = {}): Promise<T> {
    const path = objectPath(ref, o.status ? "status" : undefined) + this.#written(o);
    const contentType = "application/merge-patch+json";
    return await this.#send<T>({ method: "PATCH", path, contentType, body: mergePatch, isRepeatable: true }, o);
  }

  async delete(ref: ObjectRef, o: DeleteOptions = {}): Promise<boolean> {
    const { propagation, uid, resourceVersion } = o;
    const preconditions = uid === undefined && resourceVersion === undefined ? undefined : { uid, resourceVersion };
    const body = {
      apiVersion: "v1",
      kind: "DeleteOptions",
      propagationPolicy: propagation ?? "Background",
      preconditions,
    };
    const gone = this.#send({ method: "DELETE", path: objectPath(ref), body, isRepeatable: true }, o);
    return (await orUndefined(gone)) !== undefined;
  }

  async requestToken(account: { readonly namespace: string; readonly name: string }, o: TokenOptions): Promise<string> {
    const path = objectPath({ kind: KINDS.ServiceAccount, ...account }, "token");
    const body = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { audiences: [o.audience], expirationSeconds: o.lifetimeSeconds },
    };
    const answer = await this.#send<{ status?: { token?: string } }>(
      { method: "POST", path, body, isRepeatable: true },
      o,
    );
    const token = answer.status?.token;
    if (token !== undefined) return token;
    throw new KubeError({ status: 0, reason: "BadAnswer", message: `POST ${path}: the answer has no token` });
  }

  watch<T extends KubeObject>(kind: ResourceKind, o: WatchOptions = {}): AsyncIterable<WatchEvent<T>> {
    return watchEvents<T>(this.#transport, kind, o, this.#silenceMs);
  }

  /** Ends all requests and watches that are under way. */
  async close(): Promise<void> {
    await this.#transport.close();
  }

  #refOf(object: KubeObject): ObjectRef {
    return refOf(this.#kinds.of(object), object);
  }

  #written({ dryRun }: WriteOptions): string {
    return query({ fieldManager: this.#manager, dryRun: dryRun ? "All" : undefined });
  }

  async #send<T>(request: TransportRequest, o: CallOptions = {}): Promise<T> {
    const { signal, timeoutMs, beforeSending } = o;
    return (await this.#transport.request({ ...request, signal, timeoutMs, beforeSending })) as T;
  }
}

async function orUndefined<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof KubeError && error.isNotFound) return undefined;
    throw error;
  }
}
