import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { withEdgeWorkers } from "../../../e2e/network/edge-workers.ts";
import { startNetwork } from "../../../e2e/network/network.ts";
import { pack } from "../../../scripts/pack.ts";
import { emit, median } from "../figure.ts";
import { roundTrips, upload } from "../load.ts";
import type { MeasuredPath, Paths } from "../paths.ts";
import type { Effort } from "../row.ts";
import { meter, residentMiB } from "../usage.ts";

const WORKERS = [0, 1, 2];
const STREAMS = [1, 8, 32];

interface Run {
  readonly megabytesPerSecond: number;
  /** Of both routers, all threads: CPU seconds per GB. */
  readonly cpu: number;
}

/** Edge listeners without and with threads of their own, each in a network of its own, in turn: speed, CPU of the routers, round trips. */
export async function workers(paths: Paths, effort: Effort): Promise<void> {
  const measured: (MeasuredPath & { readonly workers: number })[] = [];
  for (const count of WORKERS) measured.push({ ...(await networkWith(paths, count)), workers: count });
  const runs = new Map<string, Run[]>();
  const times = new Map<number, number[]>(WORKERS.map((count) => [count, []]));
  for (let round = 0; round < effort.rounds + 1; round++) {
    // Each goes first as often as the others, so that what changes with time counts for none.
    const order = measured.map((_, i) => measured[(i + round) % measured.length] as (typeof measured)[number]);
    for (const path of order) {
      const { p50Ms } = await roundTrips(path.port, effort.roundTrips);
      times.get(path.workers)?.push(p50Ms);
    }
    for (const streams of STREAMS) {
      for (const { port, processes, workers } of order) {
        const used = meter(processes);
        const megabytesPerSecond = await upload(port, streams, effort.bytes);
        const usage = used(effort.bytes / 1e9);
        const cpu = (usage.r1?.cpuSeconds ?? Number.NaN) + (usage.r2?.cpuSeconds ?? Number.NaN);
        const key = `${workers} ${streams}`;
        runs.set(key, [...(runs.get(key) ?? []), { megabytesPerSecond, cpu }]);
      }
    }
  }
  const of = (workers: number, streams: number, pick: (run: Run) => number): number =>
    median((runs.get(`${workers} ${streams}`) ?? []).map(pick));
  for (const count of WORKERS) {
    for (const streams of STREAMS) {
      for (const [figure, unit, pick] of [
        ["throughput with edge workers", "MB/s", (run: Run) => run.megabytesPerSecond],
        ["CPU of both routers with edge workers", "CPU s/GB", (run: Run) => run.cpu],
      ] as const) {
        const [value, beside] = [of(count, streams, pick), of(0, streams, pick)];
        const name = `${count} workers, ${streams} streams, our SDK`;
        const details = { runs: runs.get(`${count} ${streams}`)?.map(pick) };
        emit({ figure, of: name, value, unit, ...(count > 0 && { beside, ratio: value / beside }), details });
      }
    }
    const [value, beside] = [median(times.get(count) ?? []), median(times.get(0) ?? [])];
    const compared = count > 0 && { beside, ratio: value / beside };
    const name = `${count} workers, our SDK`;
    emit({ figure: "round trip of one byte with edge workers, p50", of: name, value, unit: "ms", ...compared });
    const pid = measured[count]?.processes.r1?.pid ?? -1;
    emit({ figure: "memory of r1 with edge workers, at the end", of: name, value: residentMiB(pid), unit: "MiB" });
  }
}

async function networkWith(paths: Paths, count: number): Promise<MeasuredPath> {
  const files = { controller: await pack("controller"), router: await pack("router") };
  const ports = await freePorts(2);
  const network = await startNetwork(join(paths.folder, `workers-${count}`), {
    programFile: (program) => files[program],
    routerSettings: (name, text) => withEdgeWorkers(text, ports[name === "r1" ? 0 : 1] ?? 0, count),
  });
  paths.onStop(() => network.stop());
  return paths.sdkOver(network, `workers-${count}`);
}
