import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "@sallyport/wire";
import type { KubeClient } from "../../operator/src/kube/client/client.ts";
import { keyOf } from "../../operator/src/kube/kinds.ts";
import { Reflector } from "../../operator/src/kube/watch/reflector.ts";
import type { AnyResource } from "../../operator/src/loop/kind-reconciler.ts";
import { KINDS } from "../../packages/resources/src/group.ts";
import { NAMESPACE } from "./declared.ts";

const MEASURED = ["Network", "EdgeRouter", "OverlayService", "ServicePolicy", "Identity"];
const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };

type Watched = AnyResource & { readonly apiVersion: string };
type Fits = (resource: Watched) => boolean;

/** Follows, by watches, when which resource is as its spec wants. */
export class Readiness {
  readonly #reflectors: readonly Reflector<Watched>[];
  readonly #stop = new AbortController();
  readonly #running: Promise<unknown>;
  /** When each was ready first: `performance.now()`. */
  readonly readyAt = new Map<string, number>();
  readonly #waiting = new Map<string, { fits: Fits; done: (at: number) => void }>();

  constructor(client: KubeClient) {
    const on = ({ object }: { readonly object: Watched }): void => this.#took(object);
    this.#reflectors = KINDS.filter(({ kind }) => MEASURED.includes(kind)).map(
      (kind) => new Reflector<Watched>(client, kind, { namespaces: [NAMESPACE], on, log: SILENT }),
    );
    this.#running = Promise.all(this.#reflectors.map((reflector) => reflector.start(this.#stop.signal)));
  }

  /** Resolves when so many are ready. @throws Error naming some that are not, after that time */
  async all(count: number, withinMs: number): Promise<void> {
    const until = performance.now() + withinMs;
    while (this.readyAt.size < count) {
      if (performance.now() > until) throw new Error(`not ready after ${withinMs} ms: ${this.#laggards()}`);
      await delay(20);
    }
  }

  /** Resolves with the time at which a state of the resource was seen that fits. */
  async when(kind: string, name: string, fits: Fits): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#waiting.set(`${kind} ${NAMESPACE}/${name}`, { fits, done: resolve });
    return await promise;
  }

  /** Versions of all resources, which stay the same while no client writes. */
  versions(): ReadonlyMap<string, string> {
    return new Map(
      this.#all().map((object) => [`${object.kind} ${keyOf(object)}`, object.metadata.resourceVersion ?? ""]),
    );
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error("the benchmark has ended"));
    await this.#running;
  }

  #took(object: Watched): void {
    const key = `${object.kind} ${keyOf(object)}`;
    const at = performance.now();
    if (!this.readyAt.has(key) && isInOrder(object)) this.readyAt.set(key, at);
    const waiting = this.#waiting.get(key);
    if (waiting?.fits(object) !== true) return;
    this.#waiting.delete(key);
    waiting.done(at);
  }

  #all(): Watched[] {
    return this.#reflectors.flatMap(({ store }) => [...store.values()]);
  }

  #laggards(): string {
    const all = this.#all();
    const late = all.filter((object) => !isInOrder(object));
    const some = late.slice(0, 3).map(({ kind, metadata, status }) => {
      const ready = status.conditions?.find(({ type }) => type === "Ready");
      return `${kind} ${metadata.name} (${ready?.reason}: ${ready?.message})`;
    });
    return `${late.length} of ${all.length}, such as ${some.join(", ")}`;
  }
}

/** Ready, for the spec that is there. */
export function isInOrder({ metadata, status }: Watched): boolean {
  const ready = status.conditions?.find(({ type }) => type === "Ready");
  return ready?.status === "True" && ready.observedGeneration === metadata.generation;
}
