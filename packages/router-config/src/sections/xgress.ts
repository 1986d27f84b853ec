import { boolean, decimal, duration, integer } from "../scalars.ts";

/** Flow control of a circuit's end, shared by all bindings. Specification: "listeners", "dialers" (`options`). */
export const xgressKeys = {
  mtu: integer({ min: 0 }).default(0),
  randomDrops: boolean().default(false),
  drop1InN: integer({ min: 1 }).default(100),
  txQueueSize: integer({ min: 1 }).default(1),
  txPortalStartSize: integer({ min: 1 }).default(4_194_304),
  txPortalMinSize: integer({ min: 1 }).default(16_384),
  txPortalMaxSize: integer({ min: 1 }).default(4_194_304),
  txPortalIncreaseThresh: integer({ min: 0 }).default(28),
  txPortalIncreaseScale: decimal({ min: 0 }).default(1),
  txPortalRetxThresh: integer({ min: 0 }).default(64),
  txPortalRetxScale: decimal({ min: 0 }).default(0.75),
  txPortalDupAckThresh: integer({ min: 0 }).default(64),
  txPortalDupAckScale: decimal({ min: 0 }).default(0.9),
  rxBufferSize: integer({ min: 1 }).default(4_194_304),
  retxStartMs: integer({ min: 1, unit: "ms" }).default(200),
  retxScale: decimal({ min: 0 }).default(1.5),
  retxAddMs: integer({ min: 0, unit: "ms" }).default(0),
  retxMaxMs: integer({ min: 1, unit: "ms" }).default(10_000),
  maxRttScale: integer({ min: 0 }).default(4),
  maxCloseWaitMs: integer({ min: 0, unit: "ms" }).default(30_000),
  getCircuitTimeout: duration({ min: 1 }).default(30_000),
  circuitStartTimeout: duration({ min: 0 }).default(180_000),
  connectTimeout: duration({ min: 0 }).default(0),
};
