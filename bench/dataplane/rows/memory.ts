import { emit, median } from "../figure.ts";
import { upload } from "../load.ts";
import { labels, type Paths } from "../paths.ts";
import type { Effort } from "../row.ts";
import { residentMiB } from "../usage.ts";

const ROUTERS = ["r1", "r2"] as const;

/** Resident memory of the routers under 32 streams without an end: the most it was, and how it grew. */
export async function memory(paths: Paths, effort: Effort): Promise<void> {
  for (const path of await paths.get("mixed", "sdk")) {
    const pids = ROUTERS.map((name) => path.processes[name]?.pid ?? -1);
    const samples: number[][] = ROUTERS.map(() => []);
    const timer = setInterval(() => {
      for (const [index, pid] of pids.entries()) samples[index]?.push(residentMiB(pid));
    }, 500);
    const until = Date.now() + effort.memorySeconds * 1000;
    while (Date.now() < until) await upload(path.port, 32, 5e8);
    clearInterval(timer);
    for (const [index, router] of ROUTERS.entries()) {
      const all = samples[index] ?? [];
      const third = Math.floor(all.length / 3);
      const [early, late] = [median(all.slice(third, 2 * third)), median(all.slice(2 * third))];
      const of = `${router}, ${effort.memorySeconds} s, ${labels[path.name]}`;
      const details = { first: all[0], afterOneThird: early, afterTwoThirds: late };
      emit({
        figure: "resident memory under 32 streams",
        of,
        value: Math.max(...all),
        unit: "MiB",
        target: { atMost: 150 },
        details,
      });
      emit({
        figure: "growth of resident memory, last third beside the one before",
        of,
        value: late,
        unit: "MiB",
        beside: early,
        ratio: late / early,
        target: { atMost: 1.03 },
      });
    }
  }
}
