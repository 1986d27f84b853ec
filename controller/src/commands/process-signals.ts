import type { Logger } from "@sallyport/wire";
import { ExitStatus } from "./command-line.ts";

/** How long a controller may take to stop. */
export const STOP_LIMIT_MS = 20_000;

const SIGNALS = ["SIGINT", "SIGTERM"] as const;
const FAULTS = ["uncaughtException", "unhandledRejection"] as const;

/** A process that runs until it is to stop. */
export interface Running {
  /** Resolves when it has to stop, with the exit status so far. */
  readonly stopped: Promise<number>;
  readonly isStopped: boolean;
  /** Was it asked to stop, by a signal or otherwise? */
  readonly isAsked: boolean;
  stop(why: "asked" | number): void;
  /** Signals have their usual effect again. */
  close(): void;
}

/** Until SIGINT or SIGTERM, or an error that nothing handled. A second signal ends the process at once. SIGHUP reloads. */
export function untilStopped(on: {
  readonly onReload: () => void;
  /** Called before the process ends at once. */
  readonly onSecondSignal?: () => void;
  readonly log: Logger;
}): Running {
  const { onReload, onSecondSignal, log } = on;
  const { promise: stopped, resolve } = Promise.withResolvers<void>();
  let status: number = ExitStatus.Done;
  let isStopped = false;
  let isAsked = false;
  const stop = (why: "asked" | number) => {
    if (why === "asked") isAsked = true;
    else if (why !== ExitStatus.Done) status = why;
    isStopped = true;
    resolve();
  };
  const onSignal = (signal: NodeJS.Signals) => {
    log.info({ signal }, "stopping");
    for (const name of SIGNALS) {
      process.off(name, onSignal).on(name, () => {
        onSecondSignal?.();
        process.exit(ExitStatus.Failed);
      });
    }
    stop("asked");
  };
  // An unhandled error leaves the process in an unknown state: stop in order, and let the supervisor start it again.
  const onFault = (error: unknown) => {
    log.error({ error }, "an error that nothing handled: stopping");
    stop(ExitStatus.Failed);
  };
  for (const name of SIGNALS) process.on(name, onSignal);
  process.on("SIGHUP", onReload);
  for (const name of FAULTS) process.on(name, onFault);
  return {
    stopped: stopped.then(() => status),
    get isStopped() {
      return isStopped;
    },
    get isAsked() {
      return isAsked;
    },
    stop,
    close: () => {
      for (const name of SIGNALS) process.removeAllListeners(name);
      process.off("SIGHUP", onReload);
      for (const name of FAULTS) process.off(name, onFault);
    },
  };
}
