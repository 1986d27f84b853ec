import { readFileSync } from "node:fs";
import type { Program } from "../../e2e/network/program.ts";

const TICKS_PER_SECOND = 100;

/** What a process has used since it started. Linux only. */
export interface Usage {
  /** User and system, all threads. */
  readonly cpuSeconds: number;
  /** Pages that it was given memory for. */
  readonly minorFaults: number;
  /** Calls of the system that write, or read: sockets, and little else. */
  readonly writes: number;
  readonly reads: number;
}

export function usageOf(pid: number): Usage {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const io = readFileSync(`/proc/${pid}/io`, "utf8");
  const calls = (name: string): number => Number(new RegExp(`^${name}: (\\d+)$`, "m").exec(io)?.[1] ?? Number.NaN);
  return {
    cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND,
    minorFaults: Number(fields[7]),
    writes: calls("syscw"),
    reads: calls("syscr"),
  };
}

/** Resident memory of a process in MiB. Linux only. */
export function residentMiB(pid: number): number {
  const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1] ?? Number.NaN) / 1024;
}

export type Processes = Readonly<Record<string, Program>>;

/** Starts counting; the function it returns tells what every process has used since then, per so many units of work. */
export function meter(processes: Processes): (units: number) => Record<string, Usage> {
  const before = new Map(Object.entries(processes).map(([name, { pid }]) => [name, usageOf(pid)]));
  return (units) =>
    Object.fromEntries(
      Object.entries(processes).map(([name, { pid }]) => {
        const now = usageOf(pid);
        const then = before.get(name) ?? now;
        return [
          name,
          {
            cpuSeconds: (now.cpuSeconds - then.cpuSeconds) / units,
            minorFaults: (now.minorFaults - then.minorFaults) / units,
            writes: (now.writes - then.writes) / units,
            reads: (now.reads - then.reads) / units,
          },
        ];
      }),
    );
}
