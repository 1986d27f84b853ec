/**
 * Loaded into the controller that is measured (`node --import`): on SIGUSR2 it prints, as one line of JSON on standard error, how late the
 * event loop was since the last signal, and the memory of the process after a garbage collection that the process did by itself.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";

const RESOLUTION_MS = 5;
const NANOSECONDS = 1e6;
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
delay.enable();

/** CPU milliseconds of the main thread between two ticks: what the loop's delay would be on a machine that does nothing else. */
let used: number[] = [];
let before = process.threadCpuUsage();
setInterval(() => {
  const now = process.threadCpuUsage();
  used.push((now.user + now.system - before.user - before.system) / 1_000);
  before = now;
}, RESOLUTION_MS).unref();

process.on("SIGUSR2", () => {
  // The histogram holds the whole time between two ticks of its timer: what exceeds the resolution is delay.
  const late = (percentile: number): number => Math.max(0, delay.percentile(percentile) / NANOSECONDS - RESOLUTION_MS);
  const maxMs = Math.max(0, delay.max / NANOSECONDS - RESOLUTION_MS);
  const sorted = used.toSorted((a, b) => a - b);
  const cpuP99Ms = sorted[Math.floor(sorted.length * 0.99)] ?? 0;
  used = [];
  const { heapUsed, external, rss } = process.memoryUsage();
  process.stderr.write(
    `${JSON.stringify({ loopProbe: { p50Ms: late(50), p99Ms: late(99), maxMs, cpuP99Ms, heapUsed, external, rss } })}\n`,
  );
  delay.reset();
});
