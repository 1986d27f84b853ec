import { type Profiler as CpuProfiler, type HeapProfiler, Session } from "node:inspector/promises";
import { availableParallelism } from "node:os";
import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const CPU_PROFILE_MS = 30_000;
const HEAP_PROFILE_MS = 5_000;
const startedLoop = performance.eventLoopUtilization();

/** There are no threads to list: what keeps the process busy is its active resources, and how busy its event loop is. */
export function stackText(): string {
  const counts = new Map<string, number>();
  for (const resource of process.getActiveResourcesInfo()) counts.set(resource, (counts.get(resource) ?? 0) + 1);
  const { rss, heapUsed } = process.memoryUsage();
  const { utilization } = performance.eventLoopUtilization(startedLoop);
  return [
    `node ${process.version} pid ${process.pid} up ${Math.round(process.uptime())} s rss ${rss} heap ${heapUsed}`,
    `event loop busy ${(utilization * 100).toFixed(1)} % since start`,
    ...[...counts].sort(([a], [b]) => a.localeCompare(b)).map(([name, count]) => `${name}: ${count}`),
    "",
  ].join("\n");
}

export function statsText(): string {
  const { userCPUTime, systemCPUTime, voluntaryContextSwitches, involuntaryContextSwitches } = process.resourceUsage();
  const resources = process.getActiveResourcesInfo().length;
  return lines({
    "active resources": resources,
    "num CPU": availableParallelism(),
    "uptime s": Math.round(process.uptime()),
    "CPU user s": (userCPUTime / 1e6).toFixed(3),
    "CPU system s": (systemCPUTime / 1e6).toFixed(3),
    "context switches": `${voluntaryContextSwitches} voluntary, ${involuntaryContextSwitches} involuntary`,
  });
}

export function memoryText(): string {
  const spaces = getHeapSpaceStatistics().map((s) => [`heap ${s.space_name}`, bytesText(s.space_used_size)] as const);
  const usage = Object.entries(process.memoryUsage()).map(([name, bytes]) => [name, bytesText(bytes)] as const);
  return lines(Object.fromEntries([...usage, ...spaces]));
}

/** Node hides its collector; the flag shows it from then on. */
export function collectGarbage(): string {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect !== "function") return "this runtime does not let its garbage collector be called\n";
  Reflect.apply(collect, undefined, []);
  return "ok";
}

/** JSON that Chrome DevTools opens as a `.cpuprofile`. */
export function cpuProfile(): Promise<string> {
  return profiled(async (profiler) => {
    await profiler.startCpu();
    await delay(CPU_PROFILE_MS);
    return await profiler.stopCpu();
  });
}

/** JSON that Chrome DevTools opens as a `.heapprofile`: what was allocated meanwhile and still lives. */
export function heapProfile(): Promise<string> {
  return profiled(async (profiler) => {
    await profiler.startHeap();
    await delay(HEAP_PROFILE_MS);
    return await profiler.stopHeap();
  });
}

async function profiled(profile: (profiler: Profiler) => Promise<object>): Promise<string> {
  const profiler = new Profiler();
  try {
    return JSON.stringify(await profile(profiler));
  } finally {
    profiler.close();
  }
}

function lines(values: Readonly<Record<string, unknown>>): string {
  return `${Object.entries(values)
    .map(([name, value]) => `${name}: ${String(value)}`)
    .join("\n")}\n`;
}

function bytesText(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(2)}MB (${bytes} bytes)`;
}

/** Takes profiles of this thread, in the forms that Chrome DevTools opens. */
export class Profiler {
  readonly #session = new Session();

  constructor() {
    this.#session.connect();
  }

  async startCpu(): Promise<void> {
    await this.#session.post("Profiler.enable");
    await this.#session.post("Profiler.start");
  }

  async stopCpu(): Promise<CpuProfiler.Profile> {
    return (await this.#session.post("Profiler.stop")).profile;
  }

  /** Samples allocations from now on. */
  async startHeap(): Promise<void> {
    await this.#session.post("HeapProfiler.enable");
    await this.#session.post("HeapProfiler.startSampling");
  }

  /** What was allocated since the start and still lives. */
  async heap(): Promise<HeapProfiler.SamplingHeapProfile> {
    return (await this.#session.post("HeapProfiler.getSamplingProfile")).profile;
  }

  async stopHeap(): Promise<HeapProfiler.SamplingHeapProfile> {
    return (await this.#session.post("HeapProfiler.stopSampling")).profile;
  }

  close(): void {
    this.#session.disconnect();
  }
}
