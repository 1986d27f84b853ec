/** What a worker and the process that has started it say to each other. Source: docs/protocol/replicas.md, "Workers". */
import type { ChildProcess } from "node:child_process";
import { pauseAwake } from "@sallyport/async";

export type ToWorker = "stop";
export type FromWorker = "ready" | "alive";
/** Why a worker has to stop. */
export type StopReason = "asked to stop" | "the process that has started this worker is gone";

/** How often a worker says that its event loop runs. */
const ALIVE_MS = 1_000;

/** The worker's end. */
export interface WorkerLink {
  ready(): void;
  /** Calls `listener` when the worker has to stop: it was asked to, or the process that has started it is gone. */
  onStop(listener: (reason: StopReason) => void): void;
  /** Without it the process would not end. */
  close(): void;
}

/** Undefined in a process that was not started with a channel to its parent. */
export function linkOfWorker(aliveMs = ALIVE_MS): WorkerLink | undefined {
  if (process.send === undefined) return undefined;
  // A parent that is gone is noticed by the end of the channel.
  const say = (what: FromWorker, onSent: () => void = () => undefined) => {
    if (process.connected) process.send?.(what, undefined, undefined, onSent);
  };
  let isSent = true;
  const beat = setInterval(() => {
    // A parent that stands still for long finds one of these messages, not thousands.
    if (!isSent) return;
    isSent = false;
    say("alive", () => {
      isSent = true;
    });
  }, aliveMs).unref();
  return {
    ready: () => say("ready"),
    onStop: (listener) => {
      const gone = () => listener("the process that has started this worker is gone");
      process.on("disconnect", gone);
      process.on("message", (message) => {
        if (message === ("stop" satisfies ToWorker)) listener("asked to stop");
      });
      if (!process.connected) gone();
    },
    close: () => {
      clearInterval(beat);
      process.removeAllListeners("disconnect").removeAllListeners("message");
      if (process.connected) process.disconnect?.();
    },
  };
}

/**
 * Resolves when a worker that is ready is silent for `silentMs` milliseconds in which this process ran: its event loop hangs, or the process is stopped. Never
 * for one that has closed the channel, or has ended. One that starts may be busy with loading its program.
 */
export function silenceOf(child: ChildProcess, silentMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let heard = new AbortController();
  const wait = async ({ signal }: AbortController) => {
    await pauseAwake(silentMs, signal);
    if (!signal.aborted) resolve();
  };
  let isReady = false;
  child.on("message", (message) => {
    isReady ||= message === ("ready" satisfies FromWorker);
    if (!isReady) return;
    heard.abort();
    heard = new AbortController();
    void wait(heard);
  });
  for (const end of ["disconnect", "exit"]) child.once(end, () => heard.abort());
  return promise;
}
