import { pause } from "@sallyport/async";
import { emit, median } from "../figure.ts";
import { openStopped, roundTripsOfMany, upload } from "../load.ts";
import { labels, type Paths } from "../paths.ts";
import type { Effort } from "../row.ts";
import { meter, residentMiB } from "../usage.ts";

const OTHERS = 8;
/** How long it is watched what still goes on behind a reader that stopped. */
const WATCHED_SECONDS = 3;
/** About what the one that stops is sent, its window and what waits for it. */
const BYTES = 6 * 1024 * 1024;
const QUIET_MS = 1_000;

/**
 * Eight circuits with round trips, alone (twice, which shows how much the figure is worth) and beside one whose reader takes nothing,
 * in turn; and what the programs on the way still write when nothing else goes on.
 */
export async function stoppedReader(paths: Paths, effort: Effort): Promise<void> {
  for (const path of await paths.get("sdk", "tunnel")) {
    const alone: number[] = [];
    const aloneAgain: number[] = [];
    const beside: number[] = [];
    const routers = ["r1", "r2"].map((name) => path.processes[name]?.pid ?? -1);
    let cost: number[] = [];
    await roundTripsOfMany(path.port, OTHERS, effort.roundTrips / 4);
    const { controller: _, ...onTheWay } = path.processes;
    const written: number[] = [];
    const measureAlone = async (): Promise<void> => {
      // The same goes before as beside the other one: as much sent, and a pause.
      await upload(path.port, 1, BYTES);
      await pause(QUIET_MS);
      alone.push((await roundTripsOfMany(path.port, OTHERS, effort.roundTrips)).p99Ms);
      aloneAgain.push((await roundTripsOfMany(path.port, OTHERS, effort.roundTrips)).p99Ms);
    };
    const measureBeside = async (): Promise<void> => {
      const before = routers.map(residentMiB);
      const stopped = await openStopped(path.port);
      cost = routers.map((pid, index) => residentMiB(pid) - (before[index] ?? 0));
      beside.push((await roundTripsOfMany(path.port, OTHERS, effort.roundTrips)).p99Ms);
      const used = meter(onTheWay);
      await pause(1_000 * WATCHED_SECONDS);
      written.push(Math.max(...Object.values(used(WATCHED_SECONDS)).map(({ writes }) => writes)));
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
      details: { alone, aloneAgain, noise: median(aloneAgain) / median(alone), beside, residentMiBOfTheLastOne: cost },
    });
    emit({
      figure: "writes of the busiest program behind a reader that stops",
      of: labels[path.name],
      value: median(written),
      unit: "per second",
      target: { atMost: 10 },
      details: { written },
    });
  }
}
