import { emit, median } from "../figure.ts";
import { openStopped, roundTripsOfMany } from "../load.ts";
import { labels, type Paths } from "../paths.ts";
import type { Effort } from "../row.ts";
import { residentMiB } from "../usage.ts";

const OTHERS = 8;

/** Eight circuits with round trips, alone and beside one whose reader takes nothing, in turn. */
export async function stoppedReader(paths: Paths, effort: Effort): Promise<void> {
  for (const path of await paths.get("sdk", "tunnel")) {
    const alone: number[] = [];
    const beside: number[] = [];
    const routers = ["r1", "r2"].map((name) => path.processes[name]?.pid ?? -1);
    let cost: number[] = [];
    await roundTripsOfMany(path.port, OTHERS, effort.roundTrips / 4);
    const measureAlone = async (): Promise<void> => {
      alone.push((await roundTripsOfMany(path.port, OTHERS, effort.roundTrips)).p99Ms);
    };
    const measureBeside = async (): Promise<void> => {
      const before = routers.map(residentMiB);
      const stopped = await openStopped(path.port);
      cost = routers.map((pid, index) => residentMiB(pid) - (before[index] ?? 0));
      beside.push((await roundTripsOfMany(path.port, OTHERS, effort.roundTrips)).p99Ms);
      stopped.close();
    };
    // Each goes first as often as the other, so that what changes with time counts for neither.
    for (let round = 0; round < 2 * effort.rounds; round++) {
      const order = round % 2 === 0 ? [measureAlone, measureBeside] : [measureBeside, measureAlone];
      for (const measure of order) await measure();
    }
    emit({
      figure: "round trips of others beside a reader that stops, p99",
      of: labels[path.name],
      value: median(beside),
      unit: "ms",
      beside: median(alone),
      ratio: median(beside) / median(alone),
      target: { atMost: 1.1 },
      details: { alone, beside, residentMiBOfTheLastOne: cost },
    });
  }
}
