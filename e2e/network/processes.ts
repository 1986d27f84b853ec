import { execFileSync } from "node:child_process";

/** Ids of a process and of everything that it has started, and those have started, and so on. */
export function processTree(root: number): number[] {
  const rows = execFileSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" }).trim().split("\n");
  const children = new Map<number, number[]>();
  for (const row of rows) {
    const [pid = 0, parent = 0] = row.trim().split(/\s+/).map(Number);
    children.set(parent, [...(children.get(parent) ?? []), pid]);
  }
  const found = [root];
  for (const pid of found) found.push(...(children.get(pid) ?? []));
  return found;
}

/** Those of the processes that still run. One that has ended stays in the list until its parent takes note. */
export function alive(pids: readonly number[]): number[] {
  const states = execFileSync("ps", ["-A", "-o", "pid=,stat="], { encoding: "utf8" }).trim().split("\n");
  const running = new Set(
    states.flatMap((row) => {
      const [pid = "", state = ""] = row.trim().split(/\s+/);
      return state.startsWith("Z") ? [] : [Number(pid)];
    }),
  );
  return pids.filter((pid) => running.has(pid));
}
