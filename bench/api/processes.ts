/** CPU time and memory of a process with everything it has started. Linux only. */
import { readdirSync, readFileSync } from "node:fs";

const TICKS_PER_SECOND = 100;

/** The process and all its descendants, by number. */
export function processTree(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    const parent = Number(statOf(pid)?.[1]);
    children.set(parent, [...(children.get(parent) ?? []), pid]);
  }
  const tree = [root];
  for (let at = 0; at < tree.length; at++) tree.push(...(children.get(tree[at] ?? -1) ?? []));
  return tree;
}

/** CPU seconds that the processes have used, with what their ended children had used. */
export function treeCpuSeconds(pids: readonly number[]): number {
  let ticks = 0;
  for (const pid of pids) {
    const fields = statOf(pid) ?? [];
    for (const at of [11, 12, 13, 14]) ticks += Number(fields[at] ?? 0);
  }
  return ticks / TICKS_PER_SECOND;
}

/** Memory of the processes in MiB with pages that several of them share counted once (their proportional set sizes). */
export function sharedMiB(pids: readonly number[]): number {
  let kilobytes = 0;
  for (const pid of pids) {
    const text = read(`/proc/${pid}/smaps_rollup`);
    kilobytes += Number(/^Pss:\s+(\d+) kB/m.exec(text ?? "")?.[1] ?? 0);
  }
  return kilobytes / 1024;
}

function statOf(pid: number): string[] | undefined {
  const text = read(`/proc/${pid}/stat`);
  return text?.slice(text.lastIndexOf(")") + 2).split(" ");
}

/** A file of a process, which may end at any moment. */
function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
