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
