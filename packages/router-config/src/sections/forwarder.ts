import { durationOrMs, integer } from "../scalars.ts";
import { ignored, section } from "../section.ts";

const ms = (standard: number) => integer({ unit: "ms" }).default(standard);
const MIB = 1024 * 1024;

/** Forwarding, queues and workers. Specification: "forwarder" and "Limits". */
export const forwarder = section({
  faultTxInterval: ms(15_000),
  idleCircuitTimeout: ms(60_000),
  idleTxInterval: ms(60_000),
  linkDialQueueLength: integer({ min: 1, max: 10_000 }).default(1000),
  linkDialWorkerCount: integer({ min: 1, max: 10_000 }).default(32),
  rateLimitedQueueLength: integer({ min: 1, max: 50_000 }).default(5000),
  rateLimitedWorkerCount: integer({ min: 1, max: 10_000 }).default(5),
  xgressCloseCheckInterval: integer({ min: 0, unit: "ms" }).default(5000),
  xgressDialDwellTime: integer({ min: 0, unit: "ms" }).default(0),
  xgressDialQueueLength: integer({ min: 1, max: 10_000 }).default(1000),
  xgressDialWorkerCount: integer({ min: 1, max: 10_000 }).default(128),
  unresponsiveLinkTimeout: durationOrMs({ min: 5000 }).default(60_000),
  circuitMemory: integer({ min: 4 * MIB, max: 4096 * MIB, unit: "bytes" }).default(24 * MIB),
  latencyProbeInterval: ignored(),
});
