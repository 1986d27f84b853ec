import { AsyncLocalStorage } from "node:async_hooks";
import type { AbortableQueryOptions } from "kysely";

/** Who waits for the work: what is expensive is shared out by it. */
export interface Caller {
  readonly key: string;
  readonly isAdministrator: boolean;
}

interface Scope {
  readonly caller: Caller;
  readonly signal: AbortSignal;
  readonly isRead: boolean;
  /** It has committed something that other processes must know before its answer. */
  hasWritten: boolean;
}

const scopes = new AsyncLocalStorage<Scope>();

/**
 * Runs the work of a caller's request: reads in it that are {@link cancellable} end with `signal`.
 * @param known called after work that has written ({@link noteWrite}): resolves when the answer may go out
 */
export async function withinRequest<T>(
  { signal, caller }: { readonly signal: AbortSignal; readonly caller: Caller },
  work: () => Promise<T>,
  known: () => Promise<void>,
): Promise<T> {
  const scope: Scope = { signal, caller, isRead: false, hasWritten: false };
  try {
    return await scopes.run(scope, work);
  } finally {
    // Also after an error: its cause may be what was written, and a client goes on from there.
    if (scope.hasWritten) await known();
  }
}

/** The request that is worked on, if any, has committed something that other processes must know before its answer goes out. */
export function noteWrite(): void {
  const scope = scopes.getStore();
  if (scope !== undefined) scope.hasWritten = true;
}

/** The request that is worked on; undefined for what the controller does by itself. */
export function currentRequest(): { readonly signal: AbortSignal; readonly caller: Caller } | undefined {
  return scopes.getStore();
}

/**
 * Runs one read that serves one request only and may take long, such as a page of a list, with options for Kysely: the server stops working on it when
 * no caller waits for the answer any more. Never for a write, nor for a read that other requests share.
 */
export function cancellable<T>(read: (options: AbortableQueryOptions) => Promise<T>): Promise<T> {
  const scope = scopes.getStore();
  if (scope === undefined) return read({});
  const { signal } = scope;
  return scopes.run({ ...scope, isRead: true }, () => read({ signal, inflightQueryAbortStrategy: "cancel query" }));
}

/** Is this the end of a read whose caller has already got an answer? */
export function isForgotten(): boolean {
  const scope = scopes.getStore();
  return scope?.isRead === true && scope.signal.aborted;
}
