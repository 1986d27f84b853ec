import { Backoff, type BackoffOptions, pause } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { KubeClient, WatchEvent } from "../client/client.ts";
import { KubeError } from "../client/errors.ts";
import { type KubeObject, keyOf, type ObjectKey, type ResourceKind } from "../kinds.ts";

/** A change of one object. `previous` is what the store held; it is absent for an object that is new, also for one that was recreated under an old name. */
export type Change<T> =
  | { readonly type: "set"; readonly object: T; readonly previous?: T }
  | { readonly type: "delete"; readonly object: T; readonly previous?: T };

/** The objects of a kind by key. Every method answers the changes that it made, in order; an object that did not change makes none. */
class ObjectStore<T extends KubeObject> {
  readonly #objects = new Map<ObjectKey, T>();

  get objects(): ReadonlyMap<ObjectKey, T> {
    return this.#objects;
  }

  /** The same name with another uid is another object: what was there is deleted first. */
  set(object: T): Change<T>[] {
    const key = keyOf(object);
    const previous = this.#objects.get(key);
    if (previous === undefined) {
      this.#objects.set(key, object);
      return [{ type: "set", object }];
    }
    if (previous.metadata.uid !== object.metadata.uid) {
      this.#objects.set(key, object);
      return [
        { type: "delete", object: previous, previous },
        { type: "set", object },
      ];
    }
    if (previous.metadata.resourceVersion === object.metadata.resourceVersion) return [];
    this.#objects.set(key, object);
    return [{ type: "set", object, previous }];
  }

  /** `object` is the last state of what was deleted; of another uid than the stored one it says nothing about that. */
  delete(object: T): Change<T>[] {
    const key = keyOf(object);
    const previous = this.#objects.get(key);
    if (previous === undefined || previous.metadata.uid !== object.metadata.uid) return [];
    this.#objects.delete(key);
    return [{ type: "delete", object, previous }];
  }

  /** Everything that there is in `namespace` (everywhere when absent): what is not among it has vanished. */
  replace(objects: readonly T[], namespace?: string): Change<T>[] {
    const kept = new Set(objects.map(keyOf));
    const changes: Change<T>[] = [];
    for (const [key, object] of this.#objects) {
      if (kept.has(key) || (namespace !== undefined && object.metadata.namespace !== namespace)) continue;
      this.#objects.delete(key);
      changes.push({ type: "delete", object, previous: object });
    }
    for (const object of objects) changes.push(...this.set(object));
    return changes;
  }
}

/** A watch that ends sooner than this without a change was not worth its request. */
const SHORT_WATCH_MS = 1_000;
/** Waits after failures. Up to as much again by chance, so that many watchers do not return at once. */
const BACKOFF: BackoffOptions = { firstMs: 800, maxMs: 30_000, jitter: [1, 2], healthyMs: 120_000 };

export interface ReflectorOptions<T extends KubeObject> {
  /** One list and watch for each; absent or empty: all namespaces in one. */
  readonly namespaces?: readonly string[];
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Gets every change, in the order of the server for one object. What it throws is logged and stops nothing. */
  readonly on: (change: Change<T>) => void;
  /** What of an object is kept, for instance a Secret without its data; `managedFields` never are. */
  readonly trim?: (object: T) => T;
  readonly log: Logger;
  readonly backoff?: Partial<BackoffOptions>;
  readonly metrics?: ReflectorMetrics | undefined;
}

/** Where a reflector counts. */
export interface ReflectorMetrics {
  listed(kind: ResourceKind): void;
  watched(kind: ResourceKind): void;
  failed(kind: ResourceKind, reason: string): void;
}

/**
 * Mirrors the objects of one kind: a list, then watches that go on from the newest version seen (docs/operator/machinery.md, "List and watch").
 * It goes on through every failure until its signal ends it; {@link silentMs} says for how long the server was not heard.
 */
export class Reflector<T extends KubeObject> {
  readonly kind: ResourceKind;
  /** Resolves once everything was listed the first time; rejects only when the signal ended that wait. */
  readonly synced: Promise<void>;
  readonly #o: ReflectorOptions<T>;
  readonly #store = new ObjectStore<T>();
  readonly #giveUp: (reason: unknown) => void;
  readonly #parts: readonly Part<T>[];
  readonly #madeAt = Date.now();

  constructor(client: KubeClient, kind: ResourceKind, o: ReflectorOptions<T>) {
    this.kind = kind;
    this.#o = o;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    promise.catch(() => {}); // callers need not wait
    this.synced = promise;
    this.#giveUp = reject;
    const { namespaces = [] } = o;
    const context: PartContext<T> = {
      kind,
      client,
      options: o,
      store: this.#store,
      commit: (changes) => {
        for (const change of changes) this.#notify(change);
      },
      onSynced: () => {
        if (this.isSynced) resolve();
      },
    };
    const places = namespaces.length === 0 ? [undefined] : [...new Set(namespaces)];
    this.#parts = places.map((namespace) => new Part(context, namespace));
  }

  /** What is known at this moment. The objects are shared: callers must not change them. */
  get store(): ReadonlyMap<ObjectKey, T> {
    return this.#store.objects;
  }

  get isSynced(): boolean {
    return this.#parts.every(({ isSynced }) => isSynced);
  }

  /**
   * When the server last said anything, changed or not: milliseconds since the epoch; before that when the reflector was made.
   * Of several namespaces that of the longest silence counts.
   */
  get lastEventAt(): number {
    return Math.min(...this.#parts.map(({ lastEventAt }) => lastEventAt ?? this.#madeAt));
  }

  /** For how long the server has said nothing, milliseconds, whatever the clock of the wall did; 0 before the start. Of several namespaces the longest. */
  get silentMs(): number {
    const now = performance.now();
    return Math.max(...this.#parts.map(({ heardAt }) => now - (heardAt ?? now)));
  }

  /** Why it does not hear anything at the moment, at least of one namespace: the last failure, gone with the next success. */
  get lastError(): Error | undefined {
    return this.#parts.find(({ lastError }) => lastError !== undefined)?.lastError;
  }

  /** Runs until the signal ends it; resolves when no request is under way any more. */
  async start(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#parts.map((part) => part.run(signal)));
    this.#giveUp(signal.reason);
  }

  #notify(change: Change<T>): void {
    try {
      this.#o.on(change);
    } catch (error) {
      const { namespace, name } = change.object.metadata;
      this.#o.log.error({ kind: this.kind.kind, namespace, name, err: error }, "a change could not be taken in");
    }
  }
}

interface PartContext<T extends KubeObject> {
  readonly kind: ResourceKind;
  readonly client: KubeClient;
  readonly options: ReflectorOptions<T>;
  readonly store: ObjectStore<T>;
  commit(changes: readonly Change<T>[]): void;
  onSynced(): void;
}

/** The list and watch of one namespace, or of all. */
class Part<T extends KubeObject> {
  /** Undefined until the server was first heard. */
  lastEventAt: number | undefined;
  /** The same, or when it was started, by the clock that never jumps. */
  heardAt: number | undefined;
  lastError: Error | undefined;
  isSynced = false;
  readonly #context: PartContext<T>;
  readonly #namespace: string | undefined;
  readonly #backoff: Backoff;
  /** Where the next watch goes on; absent: list first. */
  #version: string | undefined;
  /** The server's cache may be older than what was seen: only the very first list may be answered from it. */
  #mayBeCached = true;

  constructor(context: PartContext<T>, namespace: string | undefined) {
    this.#context = context;
    this.#namespace = namespace;
    this.#backoff = new Backoff({ ...BACKOFF, ...context.options.backoff });
  }

  async run(signal: AbortSignal): Promise<void> {
    this.heardAt = performance.now();
    while (!signal.aborted) {
      const delayMs = await this.#turn(signal);
      if (delayMs > 0) await pause(delayMs, signal);
    }
  }

  /** One list or one watch; answers how long to wait before the next. */
  async #turn(signal: AbortSignal): Promise<number> {
    try {
      if (this.#version !== undefined) return await this.#watch(signal, this.#version);
      await this.#list(signal);
      return 0;
    } catch (error) {
      return signal.aborted ? 0 : this.#delayAfter(error);
    }
  }

  #delayAfter(error: unknown): number {
    const { kind, options } = this.#context;
    const { log, metrics } = options;
    const kube = error instanceof KubeError ? error : undefined;
    const fields = { kind: kind.kind, namespace: this.#namespace, err: error };
    metrics?.failed(kind, kube?.reason ?? "Unknown");
    if (kube?.isGone && this.#version !== undefined) {
      // History is gone: what happened meanwhile follows from a comparison.
      this.#version = undefined;
      log.info(fields, "the watch is too old; listing again");
      return this.#backoff.next();
    }
    this.lastError = error instanceof Error ? error : new Error(String(error));
    const delayMs = Math.max(kube?.retryAfterMs ?? 0, this.#backoff.next());
    log.warn({ ...fields, delayMs }, "list or watch failed; trying again");
    return delayMs;
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { kind, client, options } = this.#context;
    const { labelSelector, fieldSelector } = options;
    const resourceVersion = this.#mayBeCached ? "0" : undefined;
    this.#mayBeCached = false;
    const o = { labelSelector, fieldSelector, resourceVersion, signal };
    const list = await client.list<T>(kind, this.#namespace, o);
    options.metrics?.listed(kind);
    this.#commitAll(list.items, list.resourceVersion);
  }

  #commitAll(objects: readonly T[], version: string): void {
    this.#version = version;
    this.#alive();
    this.#context.commit(
      this.#context.store.replace(
        objects.map((object) => this.#trimmed(object)),
        this.#namespace,
      ),
    );
    if (this.isSynced) return;
    this.isSynced = true;
    this.#context.onSynced();
  }

  #alive(): void {
    this.lastEventAt = Date.now();
    this.heardAt = performance.now();
    this.lastError = undefined;
  }

  async #watch(signal: AbortSignal, resourceVersion: string): Promise<number> {
    const { kind, client, options } = this.#context;
    const startedAt = performance.now();
    let changes = 0;
    options.metrics?.watched(kind);
    const events = client.watch<T>(kind, {
      labelSelector: options.labelSelector,
      fieldSelector: options.fieldSelector,
      namespace: this.#namespace,
      resourceVersion,
      signal,
      onOpen: () => this.#alive(),
    });
    for await (const event of events) {
      this.#alive();
      if (event.type !== "BOOKMARK") changes += 1;
      this.#take(event);
    }
    if (signal.aborted) return 0;
    this.#alive();
    return changes === 0 && performance.now() - startedAt < SHORT_WATCH_MS ? this.#backoff.next() : 0;
  }

  #take(event: WatchEvent<T>): void {
    const { commit, store } = this.#context;
    if (event.type === "DELETED") commit(store.delete(this.#trimmed(event.object)));
    else if (event.type !== "BOOKMARK") commit(store.set(this.#trimmed(event.object)));
    this.#version = event.object.metadata.resourceVersion ?? this.#version;
  }

  #trimmed(object: T): T {
    Reflect.deleteProperty(object.metadata, "managedFields");
    return this.#context.options.trim?.(object) ?? object;
  }
}
