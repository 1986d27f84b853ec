import type { OsType } from "@sallyport/api";
import {
  type DeviceReport,
  hexDigits,
  isKnownHex,
  type PostureType,
  type ReportType,
  reportData,
} from "./posture-type.ts";

export interface ProcessReport extends DeviceReport {
  readonly path: string;
  readonly isRunning: boolean;
  readonly hash: string;
  readonly signerFingerprints: readonly string[];
}

export interface ProcessDevice {
  readonly processes: readonly ProcessReport[];
}

/** The newest report for this check says that the program runs, with one of the hashes and signed as wanted. */
export const process: PostureType<"PROCESS", ProcessDevice> = {
  defaults: { process: { osType: "Linux", path: "", hashes: [] } },
  isReported: true,
  passes: ({ id, process }, { device }) =>
    passesProcess(newestOf(device, id, process.path), process.hashes, signersOf(process.signerFingerprint)),
  isTimed: () => false,
  detail: ({ process }) => ({
    process: { ...process, hashes: process.hashes.length === 0 ? null : process.hashes },
  }),
  failure: ({ id, process }, { device }) => ({
    actualValue: actualProcess(newestOf(device, id, process.path), process),
    expectedValue: process,
  }),
  query: ({ process: { osType, path } }) => ({ process: { osType, path } }),
  subtype: ({ process: { osType, path, hashes, signerFingerprint } }) => ({
    case: "process",
    value: { osType, path, hashes, fingerprints: signersOf(signerFingerprint) },
  }),
  ofWire(subtype) {
    if (subtype.case !== "process") return undefined;
    const { osType, path, hashes, fingerprints } = subtype.value;
    const [signerFingerprint] = fingerprints;
    const process = { osType: osType as OsType, path, hashes };
    return { process: signerFingerprint === undefined ? process : { ...process, signerFingerprint } };
  },
};

export const processReport: ReportType<"PROCESS", ProcessDevice> = {
  take({ id, path = "", isRunning = false, hash = "", signerFingerprints = [] }, at, { processes }) {
    const others = processes.filter((each) => each.checkId !== id || each.path !== path);
    return {
      device: { processes: [...others, { at, checkId: id, path, isRunning, hash, signerFingerprints }] },
    };
  },
  data: ({ processes }) => ({
    processes: processes.map((each) => ({
      ...reportData(each),
      binaryHash: each.hash,
      isRunning: each.isRunning,
      path: each.path,
      signerFingerprints: [...each.signerFingerprints],
    })),
  }),
};

/** The newest report for a check. Devices report to routers by path only: such a report names no check, and counts for all. */
function newestOf(device: ProcessDevice, checkId: string, path: string): ProcessReport | undefined {
  return (
    newestReport(device, checkId) ?? device.processes.findLast((each) => each.checkId === "" && each.path === path)
  );
}

/** The newest report for a check, or for a path: a process that several checks ask for may have been reported for any of them. */
export function newestReport(device: ProcessDevice, checkId: string, path?: string): ProcessReport | undefined {
  const newest = (reports: readonly ProcessReport[]) =>
    reports.reduce<ProcessReport | undefined>((a, b) => (a === undefined || b.at >= a.at ? b : a), undefined);
  if (path === undefined) return newest(device.processes.filter((each) => each.checkId === checkId));
  const ofPath = device.processes.filter((each) => each.path === path);
  return newest(ofPath.filter((each) => each.checkId === checkId)) ?? newest(ofPath);
}

/** Does the process run, with one of the hashes and one of the signers? None of these = any. */
export function passesProcess(
  report: ProcessReport | undefined,
  hashes: readonly string[],
  signers: readonly string[],
): boolean {
  if (report?.isRunning !== true) return false;
  if (hashes.length > 0 && !isKnownHex(new Set(hashes.map(hexDigits)), report.hash)) return false;
  const known = new Set(signers.map(hexDigits));
  return signers.length === 0 || report.signerFingerprints.some((each) => isKnownHex(known, each));
}

/** What was known of a process when a check failed. */
export function actualProcess<OsType>(
  report: ProcessReport | undefined,
  wanted: { readonly osType: OsType; readonly path: string },
) {
  return {
    hash: report?.hash ?? "",
    isRunning: report?.isRunning ?? false,
    osType: wanted.osType,
    path: report?.path ?? wanted.path,
    signerFingerprints: [...(report?.signerFingerprints ?? [])],
  };
}

/** An empty fingerprint asks for no signer. */
function signersOf(fingerprint: string | undefined): string[] {
  return fingerprint ? [fingerprint] : [];
}
