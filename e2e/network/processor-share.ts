import { readFileSync } from "node:fs";
import { processTree } from "./processes.ts";

interface Ticks {
  readonly all: number;
  readonly busy: number;
  readonly own: number;
}

/** Measures, from when it is made, how much of this machine's processor time goes to programs that a test has not started. */
export class ProcessorShare {
  readonly #start = ticks();

  /** Between 0 and 1; 0 where the system does not tell. */
  ofOthers(): number {
    const start = this.#start;
    const now = ticks();
    if (start === undefined || now === undefined || now.all <= start.all) return 0;
    const others = now.busy - start.busy - (now.own - start.own);
    return Math.max(0, others / (now.all - start.all));
  }
}

function ticks(): Ticks | undefined {
  let cpu: number[];
  try {
    const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n");
    cpu = line.trim().split(/\s+/).slice(1, 9).map(Number);
  } catch {
    return undefined;
  }
  const all = cpu.reduce((sum, value) => sum + value, 0);
  const [, , , idle = 0, waiting = 0] = cpu;
  let own = 0;
  for (const pid of processTree(process.pid)) {
    // Behind the name, which may hold anything: state, 10 more fields, then user and system time, and those of children that have ended.
    const fields = statOf(pid)?.split(") ").at(-1)?.split(" ").map(Number);
    const [user = 0, system = 0, usersOfEnded = 0, systemOfEnded = 0] = fields?.slice(11, 15) ?? [];
    own += user + system + usersOfEnded + systemOfEnded;
  }
  return { all, busy: all - idle - waiting, own };
}

function statOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    // It has ended meanwhile.
    return undefined;
  }
}
