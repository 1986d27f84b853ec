import { emit, median } from "../figure.ts";
import { upload } from "../load.ts";
import { labels, type PathName, type Paths } from "../paths.ts";
import { routerCounters } from "../router-counters.ts";
import type { Effort } from "../row.ts";
import { meter, type Usage } from "../usage.ts";
import { measurePipe } from "../yardstick.ts";

const STREAMS = [1, 8, 32];

/** What OpenZiti's tunnelers send: payloads of 10 KB, each a TLS record of its own. */
const PEER_LOAD = { recordBytes: 10_240, isAcknowledged: true };

/** What routers count that says how well acknowledging works; with flow control by our ends they count nothing. */
const COUNTED = ["xgress_tx_acks", "xgress_retransmissions", "xgress_payload_duplicates", "xgress_dropped_payloads"];

interface Run {
  readonly megabytesPerSecond: number;
  readonly usage: Readonly<Record<string, Usage>>;
  /** Of our routers: what both have counted, per GB. */
  readonly counted: Readonly<Record<string, number>>;
}

/**
 * So many bytes one way over 1, 8 and 32 connections: speed of whole paths, and CPU seconds per GB of each process, the
 * paths in turn. A path has two routers; the pipe is what one hop costs at its cheapest.
 */
export async function throughput(paths: Paths, effort: Effort): Promise<void> {
  const measured = await paths.get("sdk", "tunnel", "mixed", "peer");
  const pipe: number[] = [];
  const loaded: number[] = [];
  const runs = new Map<string, Run[]>();
  for (const streams of STREAMS) {
    for (let round = 0; round < effort.rounds; round++) {
      for (const path of measured) {
        const before = await counted(paths);
        const used = meter(path.processes);
        const megabytesPerSecond = await upload(path.port, streams, effort.bytes);
        const usage = used(effort.bytes / 1e9);
        const after = await counted(paths);
        const perGB = COUNTED.map((name, i) => [name, (((after[i] ?? 0) - (before[i] ?? 0)) * 1e9) / effort.bytes]);
        const run = { megabytesPerSecond, usage, counted: Object.fromEntries(perGB) as Record<string, number> };
        const key = `${path.name} ${streams}`;
        runs.set(key, [...(runs.get(key) ?? []), run]);
      }
    }
    pipe.push((await measurePipe(paths.folder, effort.bytes)).cpuSecondsPerGB);
    loaded.push((await measurePipe(paths.folder, effort.bytes, PEER_LOAD)).cpuSecondsPerGB);
  }
  const of = (name: PathName, streams: number, pick: (run: Run) => number): number =>
    median((runs.get(`${name} ${streams}`) ?? []).map(pick));
  const cpu = (name: PathName, streams: number, process: string): number =>
    of(name, streams, ({ usage }) => usage[process]?.cpuSeconds ?? Number.NaN);
  const perGB = (name: PathName, streams: number, process: string, what: keyof Usage): number =>
    Math.round(of(name, streams, ({ usage }) => usage[process]?.[what] ?? Number.NaN));
  const has = (name: PathName): boolean => runs.has(`${name} 1`);

  emit({ figure: "TLS pipe, one hop", value: median(pipe), unit: "CPU s/GB" });
  emit({
    figure: "TLS pipe, one hop, loaded as a router between OpenZiti's tunnelers",
    value: median(loaded),
    unit: "CPU s/GB",
    ...(has("peer") && { beside: cpu("peer", 8, "r1"), ratio: median(loaded) / cpu("peer", 8, "r1") }),
  });
  for (const streams of STREAMS) {
    for (const router of ["r1", "r2"]) {
      const details = {
        pipe: median(pipe),
        ...Object.fromEntries(
          measured.map(({ name }) => [
            name,
            {
              cpuSecondsPerGB: cpu(name, streams, router),
              minorFaultsPerGB: perGB(name, streams, router, "minorFaults"),
              writesPerGB: perGB(name, streams, router, "writes"),
              readsPerGB: perGB(name, streams, router, "reads"),
            },
          ]),
        ),
      };
      const name = has("mixed") ? "mixed" : "sdk";
      emit({
        figure: "router CPU",
        of: `${router}, ${streams} streams, ${labels[name]}`,
        value: cpu(name, streams, router),
        unit: "CPU s/GB",
        ...(has("peer") && {
          beside: cpu("peer", streams, router),
          ratio: cpu(name, streams, router) / cpu("peer", streams, router),
          target: { atMost: 1 / 3 },
          aim: { atMost: 1 / 4 },
        }),
        details,
      });
    }
  }
  for (const streams of STREAMS) {
    for (const { name } of measured) {
      if (name === "peer") continue;
      const details = Object.fromEntries(
        COUNTED.map((what) => [what, of(name, streams, (run) => run.counted[what] ?? 0)]),
      );
      emit({
        figure: "retransmissions",
        of: `both routers, ${streams} streams, ${labels[name]}`,
        value: of(name, streams, (run) => run.counted.xgress_retransmissions ?? 0),
        unit: "per GB",
        details,
      });
    }
  }
  for (const streams of STREAMS) {
    for (const name of ["sdk", "tunnel"] as const) {
      if (!has(name)) continue;
      for (const end of ["client", "host"]) {
        emit({
          figure: "CPU of an end, encrypting",
          of: `${end}, ${streams} streams, ${labels[name]}`,
          value: cpu(name, streams, end),
          unit: "CPU s/GB",
          ...(has("peer") && {
            beside: cpu("peer", streams, end),
            ratio: cpu(name, streams, end) / cpu("peer", streams, end),
            target: { atMost: 1 / 2.5 },
            aim: { atMost: 2 / 6.5 },
          }),
        });
      }
    }
  }
  const speed = (name: PathName, streams: number): number => of(name, streams, (run) => run.megabytesPerSecond);
  for (const { name } of measured) {
    if (name === "peer") continue;
    const isMixed = name === "mixed";
    for (const streams of STREAMS) {
      emit({
        figure: "throughput",
        of: `${streams} streams, ${labels[name]}`,
        value: speed(name, streams),
        unit: "MB/s",
        ...(has("peer") && {
          beside: speed("peer", streams),
          ratio: speed(name, streams) / speed("peer", streams),
          target: { atLeast: isMixed ? 1.3 : 2.5 },
          ...(!isMixed && { aim: { atLeast: 4 } }),
        }),
      });
    }
    for (const streams of [8, 32]) {
      emit({
        figure: "throughput of many streams beside one",
        of: `${streams} streams, ${labels[name]}`,
        value: speed(name, streams),
        unit: "MB/s",
        beside: speed(name, 1),
        ratio: speed(name, streams) / speed(name, 1),
        ...(isMixed && { target: { atLeast: 0.9 } }),
      });
    }
  }
}

/** Both of our routers together, in the order of `COUNTED`. */
async function counted(paths: Paths): Promise<number[]> {
  const routers = await Promise.all([...paths.metricsPorts.values()].map((port) => routerCounters(port)));
  return COUNTED.map((name) => routers.reduce((sum, counters) => sum + (counters.get(name) ?? 0), 0));
}
