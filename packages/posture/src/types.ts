/**
 * The types of posture checks and of reports, and what controllers and routers ask of them. A new type is a file beside this one and an entry in the tables: the compiler
 * misses it otherwise. Pure. Source: docs/protocol/posture.md.
 */
import type { PostureCheckType, PostureReport, PostureReportType } from "@sallyport/api";
import { type DomainDevice, domain, domainReport } from "./domain.ts";
import { type MacDevice, mac, macReport } from "./mac.ts";
import { endpointStateReport, mfa } from "./mfa.ts";
import { type OsDevice, os, osReport } from "./os.ts";
import type { CheckOf, KnownPosture, PostureType, ReportType, SessionPosture } from "./posture-type.ts";
import { type ProcessDevice, process, processReport } from "./process.ts";
import { processMulti } from "./process-multi.ts";

/** What the devices of an identity reported last. The store keeps it as JSON. */
export type DevicePosture = OsDevice & DomainDevice & MacDevice & ProcessDevice;
export type PostureState = KnownPosture<DevicePosture>;
export type PostureCheck = CheckOf<PostureCheckType>;

export const NOTHING_REPORTED: PostureState = { device: { processes: [] }, session: {} };

const TYPES: { readonly [T in PostureCheckType]: PostureType<T, DevicePosture> } = {
  OS: os,
  PROCESS: process,
  DOMAIN: domain,
  MAC: mac,
  PROCESS_MULTI: processMulti,
  MFA: mfa,
};

const REPORTS: { readonly [T in PostureReportType]: ReportType<T, DevicePosture> } = {
  DOMAIN: domainReport,
  MAC: macReport,
  OS: osReport,
  PROCESS: processReport,
  ENDPOINT_STATE: endpointStateReport,
};

/** @throws Error for a type that this version does not know */
export function postureType(typeId: string): PostureType<PostureCheckType, DevicePosture> {
  if (!Object.hasOwn(TYPES, typeId))
    throw new Error(`the posture check type ${typeId} is unknown: a later version wrote it`);
  return TYPES[typeId as PostureCheckType] as PostureType<PostureCheckType, DevicePosture>;
}

/** Every type, by its name. */
export function postureTypes() {
  return Object.entries(TYPES) as [PostureCheckType, PostureType<PostureCheckType, DevicePosture>][];
}

/** A type's own fields out of what the store keeps. */
export function storedFields(typeId: string, data: Readonly<Record<string, unknown>>) {
  const { defaults } = postureType(typeId);
  return Object.fromEntries(
    Object.entries(defaults).map(([name, value]) => [name, data[name] ?? value]),
  ) as typeof defaults;
}

/** When the device, or the user, last said something that the check looks at, in milliseconds since 1970; undefined: never. */
export function reportedAt(
  { typeId }: Pick<PostureCheck, "typeId">,
  { device, session }: PostureState,
): number | undefined {
  switch (typeId) {
    case "OS":
      return device.os?.at;
    case "DOMAIN":
      return device.domain?.at;
    case "MAC":
      return device.mac?.at;
    case "PROCESS":
    case "PROCESS_MULTI":
      return device.processes.length === 0 ? undefined : Math.max(...device.processes.map(({ at }) => at));
    case "MFA":
      return session.mfaPassedAt;
  }
}

/** Does the check pass at this moment (milliseconds since 1970)? */
export function passes(check: PostureCheck, known: PostureState, now: number): boolean {
  return postureType(check.typeId).passes(check, known, now);
}

/** What is known after a report: of the device, or of the API session. @param at milliseconds since 1970 */
export function takeReport(
  type: PostureReportType,
  report: PostureReport,
  at: number,
  before: DevicePosture,
): { readonly device: DevicePosture } | { readonly session: SessionPosture } {
  const taken = (REPORTS[type] as ReportType<PostureReportType, DevicePosture>).take(report, at, before);
  return "device" in taken ? { device: { ...before, ...taken.device } } : taken;
}

/** What administrators see of all reports of a device. */
export function deviceData(device: DevicePosture) {
  return {
    ...REPORTS.OS.data(device),
    ...REPORTS.DOMAIN.data(device),
    ...REPORTS.MAC.data(device),
    ...REPORTS.PROCESS.data(device),
  };
}
