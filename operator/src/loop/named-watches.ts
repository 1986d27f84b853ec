import type { Logger } from "@sallyport/wire";
import type { KubeClient } from "../kube/client/client.ts";
import { type KubeObject, keyFor, type ResourceKind } from "../kube/kinds.ts";
import { Reflector, type ReflectorMetrics } from "../kube/watch/reflector.ts";
import { isNewer } from "./latest-objects.ts";

/** Objects of one namespace, and twice as many of all. Each costs a connection; objects beyond are looked at with the next look at the resource. */
const LIMIT = 64;

/** The object as the watch told it last. */
interface ObjectState {
  /** Also of an object that is gone; undefined: the first list had none. */
  readonly version: string | undefined;
  readonly isGone: boolean;
}

interface User {
  readonly onChange: () => void;
  /** Version of its last read; undefined: there was no object. Each has its own: one who reads later knows more than the others. */
  readonly seen: string | undefined;
  /** What it was told last. */
  notified: ObjectState | undefined;
}

interface WatchedObject {
  readonly namespace: string;
  readonly users: Map<string, User>;
  readonly stop: AbortController;
  /** Undefined: the watch has told nothing yet. */
  state: ObjectState | undefined;
}

interface NamedWatchesOptions {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly metrics?: ReflectorMetrics;
  /** Objects of one namespace that are watched at the same time, at most; of all namespaces twice as many. */
  readonly limit?: number;
}

/**
 * Watches single Secrets and ConfigMaps by their names, for those that read them: nothing else of a namespace is read or kept, and of these
 * only the version.
 */
export class NamedWatches {
  readonly #o: NamedWatchesOptions;
  readonly #entries = new Map<string, WatchedObject>();
  readonly #used = new Map<string, ReadonlySet<string>>();
  readonly #running = new Set<Promise<void>>();
  /** Namespaces of which it was said that there are too many. */
  readonly #warned = new Set<string>();

  constructor(o: NamedWatchesOptions) {
    this.#o = o;
  }

  /** How many objects are watched. */
  get size(): number {
    return this.#entries.size;
  }

  /** `user` just read the object in this version (undefined: there is none) and is told when it changes. */
  use(
    user: string,
    kind: ResourceKind,
    namespace: string,
    name: string,
    version: string | undefined,
    onChange: () => void,
  ): void {
    const key = textOf(kind, namespace, name);
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      if (this.#isFull(namespace)) {
        // Once, and not with every look at every such resource.
        if (!this.#warned.has(namespace)) {
          const text = "too many objects are watched by name; this one and those after it are looked at now and then";
          this.#o.log.warn({ kind: kind.kind, namespace, name }, text);
        }
        this.#warned.add(namespace);
        return;
      }
      this.#warned.delete(namespace);
      entry = this.#watch(key, kind, namespace, name);
    }
    const reader: User = { onChange, seen: version, notified: entry.users.get(user)?.notified };
    entry.users.set(user, reader);
    // The watch may be ahead of the read.
    notify(reader, entry.state);
    this.#used.set(user, new Set([...(this.#used.get(user) ?? []), key]));
  }

  /** From now on `user` hears of these objects only. */
  keepOnly(
    user: string,
    objects: Iterable<{ readonly kind: ResourceKind; readonly namespace: string; readonly name: string }>,
  ): void {
    const kept = new Set([...objects].map(({ kind, namespace, name }) => textOf(kind, namespace, name)));
    for (const key of this.#used.get(user) ?? []) {
      if (kept.has(key)) continue;
      const entry = this.#entries.get(key);
      entry?.users.delete(user);
      if (entry?.users.size !== 0) continue;
      this.#entries.delete(key);
      entry.stop.abort(new Error("no resource reads it any more"));
    }
    if (kept.size === 0) this.#used.delete(user);
    else this.#used.set(user, kept);
  }

  /** Ends all watches. */
  async close(): Promise<void> {
    for (const { stop } of this.#entries.values()) stop.abort(new Error("the operator stops"));
    this.#entries.clear();
    await Promise.all(this.#running);
  }

  #isFull(namespace: string): boolean {
    const limit = this.#o.limit ?? LIMIT;
    if (this.#entries.size >= 2 * limit) return true;
    return [...this.#entries.values()].filter((entry) => entry.namespace === namespace).length >= limit;
  }

  #watch(key: string, kind: ResourceKind, namespace: string, name: string): WatchedObject {
    const { client, log, metrics } = this.#o;
    const entry: WatchedObject = { namespace, users: new Map(), stop: new AbortController(), state: undefined };
    this.#entries.set(key, entry);
    const changed = (state: ObjectState): void => {
      entry.state = state;
      // Who is told may read at once, and become another user.
      for (const user of [...entry.users.values()]) notify(user, state);
    };
    const reflector = new Reflector<KubeObject>(client, kind, {
      namespaces: [namespace],
      fieldSelector: `metadata.name=${name}`,
      on: ({ type, object }) => changed({ version: object.metadata.resourceVersion, isGone: type === "delete" }),
      trim: ({ apiVersion, kind: called, metadata }) => ({ apiVersion, kind: called, metadata: bare(metadata) }),
      log,
      metrics,
    });
    // What vanished between the read and the list makes no change.
    void reflector.synced.then(
      () => {
        if (!reflector.store.has(keyFor(namespace, name))) changed({ version: entry.state?.version, isGone: true });
      },
      () => undefined,
    );
    const running = reflector.start(entry.stop.signal).finally(() => this.#running.delete(running));
    this.#running.add(running);
    return entry;
  }
}

/** Once of each state, and only one whose read was before it. */
function notify(user: User, state: ObjectState | undefined): void {
  if (state === undefined || user.notified === state || !isBehind(user.seen, state)) return;
  user.notified = state;
  user.onChange();
}

function isBehind(seen: string | undefined, { version, isGone }: ObjectState): boolean {
  if (isGone) return seen !== undefined && !isNewer(seen, version);
  return seen === undefined || (seen !== version && !isNewer(seen, version));
}

function bare({ name, namespace, uid, resourceVersion }: KubeObject["metadata"]): KubeObject["metadata"] {
  return { name, namespace, uid, resourceVersion };
}

const textOf = ({ plural }: ResourceKind, namespace: string, name: string): string =>
  `${plural} ${keyFor(namespace, name)}`;
