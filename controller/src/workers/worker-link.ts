/** What a worker and the process that has started it say to each other. */

export type ToWorker = "stop";
export type FromWorker = "ready";
/** Why a worker has to stop. */
export type StopReason = "asked to stop" | "the process that has started this worker is gone";

/** The worker's end. */
export interface WorkerLink {
  ready(): void;
  /** Calls `listener` when the worker has to stop: it was asked to, or the process that has started it is gone. */
  onStop(listener: (reason: StopReason) => void): void;
  /** Without it the process would not end. */
  close(): void;
}

/** Undefined in a process that was not started with a channel to its parent. */
export function linkOfWorker(): WorkerLink | undefined {
  const send = process.send?.bind(process);
  if (send === undefined) return undefined;
  return {
    // One that is gone is noticed by the end of the channel.
    ready: () => void send("ready" satisfies FromWorker, undefined, undefined, () => undefined),
    onStop: (listener) => {
      const gone = () => listener("the process that has started this worker is gone");
      process.on("disconnect", gone);
      process.on("message", (message) => {
        if (message === ("stop" satisfies ToWorker)) listener("asked to stop");
      });
      if (!process.connected) gone();
    },
    close: () => {
      process.removeAllListeners("disconnect").removeAllListeners("message");
      if (process.connected) process.disconnect?.();
    },
  };
}
