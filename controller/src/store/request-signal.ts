import { AsyncLocalStorage } from "node:async_hooks";
import type { AbortableQueryOptions } from "kysely";

const signals = new AsyncLocalStorage<AbortSignal>();

/** Runs the work of a request: reads in it that ask for {@link cancellable} end with `signal`. */
export function withinRequest<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  return signals.run(signal, work);
}

/**
 * Options for a read that serves one request only and may take long, such as a page of a list: the server stops working on it when nobody waits for
 * the answer any more. Never for a write, nor for a read that other requests share.
 */
export function cancellable(): AbortableQueryOptions {
  const signal = signals.getStore();
  return signal === undefined ? {} : { signal, inflightQueryAbortStrategy: "cancel query" };
}
