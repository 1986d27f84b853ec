/** Timers know no longer time: one of more than this would end at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Waits so many milliseconds, or until the signal ends the wait: then it resolves at once. Who must know looks at the signal. */
export function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(delayMs, LONGEST_TIMER_MS));
    signal.addEventListener("abort", end, { once: true });
  });
}
