/** Programs of a run that was killed. */
import { readFile } from "node:fs/promises";
import { pause } from "@sallyport/async";
import { CommandError } from "../../errors.ts";
import { isRunning, type ProcessMark, readMark } from "./process-mark.ts";

/** Controller and router need up to 30 s for what they carry. */
export const STOP_MS = 40_000;
const ASK_MS = 100;

/** The program of a run that was killed, if it still runs. */
export async function earlierProgram(pidFile: string): Promise<ProcessMark | undefined> {
  const mark = readMark(await readFile(pidFile, "utf8").catch(() => ""));
  return mark !== undefined && isRunning(mark) ? mark : undefined;
}

/** Stops it. @throws CommandError, or the signal's reason */
export async function stopEarlier(pidFile: string, stop: AbortSignal): Promise<void> {
  const mark = await earlierProgram(pidFile);
  if (mark === undefined) return;
  signalProcess(mark, "SIGTERM");
  const deadline = performance.now() + STOP_MS;
  while (isRunning(mark)) {
    if (performance.now() > deadline) signalProcess(mark, "SIGKILL");
    await pause(ASK_MS, stop);
    stop.throwIfAborted();
  }
}

function signalProcess({ pid }: ProcessMark, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return;
    throw new CommandError(
      `process ${pid} of an earlier run cannot be stopped (${(error as NodeJS.ErrnoException).code}): stop it by hand`,
    );
  }
}
