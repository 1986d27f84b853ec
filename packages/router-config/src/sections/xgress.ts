import { xgressDefaults } from "@sallyport/wire";
import { boolean, decimal, duration, integer } from "../scalars.ts";

/** Flow control of a circuit's end, shared by all bindings. Specification: "listeners", "dialers" (`options`). */
export const xgressKeys = {
  mtu: integer({ min: 0 }).default(0),
  randomDrops: boolean().default(false),
  drop1InN: integer({ min: 1 }).default(100),
  txQueueSize: integer({ min: 1 }).default(1),
  txPortalStartSize: integer({ min: 1 }).default(xgressDefaults.txPortalStartSize),
  txPortalMinSize: integer({ min: 1 }).default(xgressDefaults.txPortalMinSize),
  txPortalMaxSize: integer({ min: 1 }).default(xgressDefaults.txPortalMaxSize),
  txPortalIncreaseThresh: integer({ min: 0 }).default(xgressDefaults.txPortalIncreaseThresh),
  txPortalIncreaseScale: decimal({ min: 0 }).default(xgressDefaults.txPortalIncreaseScale),
  txPortalRetxThresh: integer({ min: 0 }).default(xgressDefaults.txPortalRetxThresh),
  txPortalRetxScale: decimal({ min: 0 }).default(xgressDefaults.txPortalRetxScale),
  txPortalDupAckThresh: integer({ min: 0 }).default(xgressDefaults.txPortalDupAckThresh),
  txPortalDupAckScale: decimal({ min: 0 }).default(0.9),
  rxBufferSize: integer({ min: 1 }).default(xgressDefaults.rxBufferSize),
  retxStartMs: integer({ min: 1, unit: "ms" }).default(xgressDefaults.retxStartMs),
  retxScale: decimal({ min: 0 }).default(xgressDefaults.retxScale),
  retxAddMs: integer({ min: 0, unit: "ms" }).default(xgressDefaults.retxAddMs),
  retxMaxMs: integer({ min: 1, unit: "ms" }).default(xgressDefaults.retxMaxMs),
  maxRttScale: integer({ min: 0 }).default(xgressDefaults.maxRttScale),
  maxCloseWaitMs: integer({ min: 0, unit: "ms" }).default(xgressDefaults.maxCloseWaitMs),
  getCircuitTimeout: duration({ min: 1 }).default(30_000),
  circuitStartTimeout: duration({ min: 0 }).default(xgressDefaults.circuitStartTimeoutMs),
  connectTimeout: duration({ min: 0 }).default(0),
};
