/**
 * Posture checks: what a device reported, and whether a check passes. The controller and the router decide with the same code. Pure: no I/O, no clock, no schema.
 *
 * ```ts
 * const taken = takeReport("OS", { typeId: "OS", id: "check", type: "linux", version: "6.8.0" }, Date.now(), NOTHING_REPORTED.device);
 * passes(check, { device: taken.device, session: {} }, Date.now()); // true when the check wants Linux 6.8.0
 * ```
 *
 * Source: docs/protocol/posture.md.
 */
export { lastReportAt, mergedPosture, saysTheSame } from "./merge.ts";
export { isEndpointEvent, PROMPT_GRACE_MS, promptedAt, sessionState } from "./mfa.ts";
export { type SessionPosture, timeOrNull } from "./posture-type.ts";
export {
  type DevicePosture,
  deviceData,
  NOTHING_REPORTED,
  type PostureCheck,
  type PostureState,
  passes,
  postureType,
  reportedAt,
  storedFields,
  takeReport,
} from "./types.ts";
export { checkOfWire, evaluate, expiresAt, impossibleCheck } from "./wire-checks.ts";
export { MAX_POSTURE_BYTES, MAX_PROCESSES, reportsOfWire, withTotp } from "./wire-reports.ts";
