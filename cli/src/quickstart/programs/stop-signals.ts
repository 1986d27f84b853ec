/** Signals that stop what this program runs. */

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** As shells count an interruption. */
const INTERRUPTED = 130;

/**
 * A signal that the first of these aborts.
 *
 * @param atOnce called at the second, before the process ends
 * @returns also a function that leaves the signals to the system again
 */
export function stopSignals(atOnce: () => void): { readonly stop: AbortSignal; readonly end: () => void } {
  const stop = new AbortController();
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) {
      atOnce();
      process.exit(INTERRUPTED);
    }
    stop.abort(new Error(`${signal} was received`));
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return {
    stop: stop.signal,
    end: () => {
      for (const signal of SIGNALS) process.off(signal, onSignal);
    },
  };
}
