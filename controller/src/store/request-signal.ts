import { AsyncLocalStorage } from "node:async_hooks";
import type { AbortableQueryOptions } from "kysely";

interface Scope {
  readonly signal: AbortSignal;
  readonly isRead: boolean;
}

const scopes = new AsyncLocalStorage<Scope>();

/** Runs the work of a request: reads in it that are {@link cancellable} end with `signal`. */
export function withinRequest<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  return scopes.run({ signal, isRead: false }, work);
}

/**
 * Runs one read that serves one request only and may take long, such as a page of a list, with options for Kysely: the server stops working on it when
 * nobody waits for the answer any more. Never for a write, nor for a read that other requests share.
 */
export function cancellable<T>(read: (options: AbortableQueryOptions) => Promise<T>): Promise<T> {
  const signal = scopes.getStore()?.signal;
  if (signal === undefined) return read({});
  return scopes.run({ signal, isRead: true }, () => read({ signal, inflightQueryAbortStrategy: "cancel query" }));
}

/** Is this the end of a read whose caller has been told already, and of which nobody hears any more? */
export function isForgotten(): boolean {
  const scope = scopes.getStore();
  return scope?.isRead === true && scope.signal.aborted;
}
