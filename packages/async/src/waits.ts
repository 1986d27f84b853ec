/** The longest delay a timer of Node takes, in milliseconds (24.8 days). A longer one would fire at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Waits for `ms` milliseconds, or until the signal aborts. It never rejects: a caller that must know looks at `signal.aborted`.
 * Delays longer than {@link MAX_TIMER_MS} are cut to it.
 *
 * @param options `ref: false` lets the process exit during the wait
 */
export function pause(
  ms: number,
  signal?: AbortSignal,
  { ref = true }: { readonly ref?: boolean } = {},
): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(ms, MAX_TIMER_MS));
    if (!ref) timer.unref();
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** A wait in which the process stood still is longer by at most one of these parts. */
const PARTS_OF_A_WAIT = 8;

/**
 * Waits for `ms` milliseconds in which this process runs, or until the signal aborts. Time in which the process was stopped, or busy, does
 * not count. What arrived at its sockets by then has been read: timers run before sockets are read, so an ordinary wait for an answer ends
 * while the answer lies in a buffer. The wait does not keep the process.
 */
export async function pauseAwake(ms: number, signal?: AbortSignal): Promise<void> {
  for (let part = 0; part < PARTS_OF_A_WAIT && signal?.aborted !== true; part++) {
    await pause(ms / PARTS_OF_A_WAIT, signal, { ref: false });
  }
  if (signal?.aborted !== true) await new Promise((resolve) => setImmediate(resolve));
}

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

/**
 * Waits until the listener that is subscribed is called, or for `ms` milliseconds. The listener is removed again.
 *
 * @param subscribe returns the function that removes the listener, as `Listeners.add` does
 * @returns rejects with the signal's reason when the signal aborts first
 */
export async function nextCall(
  subscribe: (listener: () => void) => () => void,
  ms: number,
  signal?: AbortSignal,
): Promise<void> {
  const called = new AbortController();
  const remove = subscribe(() => called.abort());
  try {
    await abortable(pause(ms, called.signal), signal);
  } finally {
    remove();
    called.abort();
  }
}

/** Resolves when the signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
