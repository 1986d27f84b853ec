/** Processes of earlier runs. A process id alone does not identify one: the system gives it to others later. */
import { readFileSync } from "node:fs";

export interface ProcessMark {
  readonly pid: number;
  /** When the system started it, in its own units; empty where the system does not say. */
  readonly started: string;
}

export function markOf(pid: number): ProcessMark {
  return { pid, started: startOf(pid) ?? "" };
}

/** Whether the process still runs. */
export function isRunning({ pid, started }: ProcessMark): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  return (startOf(pid) ?? started) === started;
}

/** What a file says of a process; undefined for any other text. */
export function readMark(text: string): ProcessMark | undefined {
  const [, pid = "", started = ""] = /^(\d{1,10}) (\d*)\s*$/.exec(text) ?? [];
  return pid === "" ? undefined : { pid: Number(pid), started };
}

export function markText({ pid, started }: ProcessMark): string {
  return `${pid} ${started}\n`;
}

/** Field 22 of /proc/PID/stat. The name of the program, field 2, may hold blanks and parentheses. */
function startOf(pid: number): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}
