import type { ManagementClient } from "@sallyport/api/client";
import type { AnyResource, KindReconciler, ReconcileContext } from "../../operator/src/loop/kind-reconciler.ts";

/** The reconciler of a process that dies before or after one of its writes: it does nothing any more, and says nothing. */
export class Mortal<R extends AnyResource> {
  readonly reconciler: KindReconciler;
  readonly died: Promise<string>;
  #points = 0;
  readonly #dieAt: number;
  readonly #die: (where: string) => void;

  constructor(reconciler: KindReconciler<R>, dieAt: number) {
    const { promise, resolve } = Promise.withResolvers<string>();
    this.died = promise;
    this.#die = resolve;
    this.#dieAt = dieAt;
    const mortal: KindReconciler<R> = {
      ...reconciler,
      reconcile: (resource, context) => reconciler.reconcile(resource, this.#within(context)),
    };
    this.reconciler = mortal as unknown as KindReconciler;
  }

  #within(context: ReconcileContext<R>): ReconcileContext<R> {
    const { client, networks, known, cluster, signal, log, metrics, admissions, mayAct } = context;
    const forNetwork: typeof networks.forNetwork = (ref) => {
      const network = networks.forNetwork(ref);
      return { ...network, client: this.#guarded<ManagementClient>(network.client, signal) };
    };
    return {
      client: this.#guarded(client, signal),
      networks: { forNetwork } as unknown as typeof networks,
      ...{ known, cluster, signal, log, metrics, admissions, mayAct },
      now: () => context.now(),
      recordEvent: (event) => context.recordEvent(event),
      keep: (status) => context.keep(status),
      read: (kind, name) => context.read(kind, name),
    };
  }

  /** Every call that changes something has two points to die at. */
  #guarded<T extends object>(target: T, signal: AbortSignal): T {
    return new Proxy(target, {
      get: (_, property) => {
        const method: unknown = Reflect.get(target, property);
        const name = String(property);
        if (typeof method !== "function") return method;
        if (/^(get|list|detail|watch)/.test(name)) return method.bind(target);
        return async (...args: unknown[]) => {
          await this.#point(`before ${name}`, signal);
          const answer: unknown = await method.apply(target, args);
          await this.#point(`after ${name}`, signal);
          return answer;
        };
      },
    });
  }

  async #point(where: string, signal: AbortSignal): Promise<void> {
    if (this.#points++ < this.#dieAt) return;
    this.#die(where);
    const { promise, reject } = Promise.withResolvers<never>();
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    await promise;
  }
}
