/**
 * The outcome of the promise, or a rejection with the signal's reason when the signal aborts first. The work behind the promise goes on,
 * and a later rejection of it is handled.
 */
export function abortable<T>(promise: PromiseLike<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal?.reason);
    if (signal?.aborted === true) abort();
    else signal?.addEventListener("abort", abort, { once: true });
    const settle = (): void => signal?.removeEventListener("abort", abort);
    promise.then(
      (value) => {
        settle();
        resolve(value);
      },
      (error: unknown) => {
        settle();
        reject(error);
      },
    );
  });
}

/** Resolves when the signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
