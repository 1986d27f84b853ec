/** Processes of earlier runs. A process id alone does not identify one: the system gives it to others later. */
import { readFileSync } from "node:fs";

export interface ProcessMark {
  readonly pid: number;
  /** When the system started it, in its own units; empty where the system does not say. */
  readonly started: string;
}

export function markOf(pid: number): ProcessMark {
  return { pid, started: statusOf(pid)?.started ?? "" };
}

/** Whether the process still runs. One that has ended stays in the list until its parent takes note, in some containers forever. */
export function isRunning({ pid, started }: ProcessMark): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  const now = statusOf(pid);
  return now === undefined || (now.started === started && now.state !== "Z" && now.state !== "X");
}

/** What a file says of a process; undefined for any other text. */
export function readMark(text: string): ProcessMark | undefined {
  const [, pid = "", started = ""] = /^(\d{1,10}) (\d*)\s*$/.exec(text) ?? [];
  return pid === "" ? undefined : { pid: Number(pid), started };
}

export function markText({ pid, started }: ProcessMark): string {
  return `${pid} ${started}\n`;
}

/** Fields 3 and 22 of /proc/PID/stat. The name of the program, field 2, may hold blanks and parentheses. */
function statusOf(pid: number): { readonly state: string; readonly started: string } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { state: fields[0] ?? "", started: fields[19] ?? "" };
  } catch {
    return undefined;
  }
}
