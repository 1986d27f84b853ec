import type { Program } from "../../e2e/network/program.ts";
import { openCircuits, roundTrips, upload } from "./load.ts";
import { cpuSeconds, residentMiB } from "./usage.ts";

/** A path that is measured: a local port, and the processes that carry what is sent into it. */
export interface MeasuredPath {
  /** Whose routers, and whose ends: the first words of every figure. */
  readonly label: string;
  readonly port: number;
  readonly processes: Readonly<Record<string, Program>>;
}

export type Emit = (figure: Readonly<Record<string, unknown>>) => void;

export interface Effort {
  /** Bytes of one throughput run. */
  readonly bytes: number;
  readonly circuits: number;
  readonly roundTrips: number;
}

/** Waits until the path carries a first connection: tunnelers and terminators come up in their own time. */
export async function warmUp(path: MeasuredPath, timeoutMs = 60_000): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (Date.now() < deadline) {
    if ((await openCircuits(path.port, 1, 1)).failed === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`${path.label}: no connection was carried within ${timeoutMs} ms`);
}

/** Throughput at 1, 8 and 32 streams with the CPU seconds per GB of every process; `pipe` is measured in the same minute. */
export async function measureThroughput(path: MeasuredPath, effort: Effort, emit: Emit): Promise<void> {
  for (const streams of [1, 8, 32]) {
    const cpu = cpuMeter(path);
    const megabytesPerSecond = await upload(path.port, streams, effort.bytes);
    const cpuSecondsPerGB = cpu(effort.bytes / 1e9);
    emit({
      figure: "throughput",
      path: path.label,
      streams,
      megabytesPerSecond: round(megabytesPerSecond),
      cpuSecondsPerGB,
    });
  }
}

export async function measureCircuits(path: MeasuredPath, effort: Effort, emit: Emit): Promise<void> {
  for (const concurrency of [1, 16]) {
    const count = concurrency === 1 ? Math.ceil(effort.circuits / 4) : effort.circuits;
    const cpu = cpuMeter(path);
    const result = await openCircuits(path.port, count, concurrency);
    const cpuMsPerCircuit = cpu(count / 1000);
    emit({
      figure: "new circuits",
      path: path.label,
      concurrency,
      perSecond: round(result.perSecond),
      p50Ms: round(result.p50Ms),
      p99Ms: round(result.p99Ms),
      failed: result.failed,
      cpuMsPerCircuit,
    });
  }
  const trips = await roundTrips(path.port, effort.roundTrips);
  emit({ figure: "round trip of one byte", path: path.label, p50Ms: round(trips.p50Ms), p99Ms: round(trips.p99Ms) });
}

export function measureMemory(path: MeasuredPath, emit: Emit): void {
  const residentMB = Object.fromEntries(
    Object.entries(path.processes).map(([name, p]) => [name, round(residentMiB(p.pid))]),
  );
  emit({ figure: "memory", path: path.label, residentMiB: residentMB });
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** Starts counting; the function it returns tells the CPU seconds of every process since then, per so many units of work. */
function cpuMeter(path: MeasuredPath): (units: number) => Record<string, number> {
  const now = () => Object.entries(path.processes).map(([name, process]) => [name, cpuSeconds(process.pid)] as const);
  const before = new Map(now());
  return (units) =>
    Object.fromEntries(now().map(([name, used]) => [name, round((used - (before.get(name) ?? 0)) / units)]));
}
