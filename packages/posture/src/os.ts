import type { OsType } from "@sallyport/api";
import { BoundedMap } from "@sallyport/async";
import semver from "semver";
import { type DeviceReport, type PostureType, type ReportType, reportData } from "./posture-type.ts";

export interface OsDevice {
  readonly os?: DeviceReport & { readonly type: string; readonly version: string; readonly build: string };
}

/** The reported system is one of those listed, and its version lies in one of its ranges. */
export const os: PostureType<"OS", OsDevice> = {
  defaults: { operatingSystems: [] },
  isReported: true,
  problem({ operatingSystems = [] }) {
    for (const [i, { versions }] of operatingSystems.entries()) {
      const bad = versions.findIndex((range) => parseVersionRange(range) === undefined);
      if (bad < 0) continue;
      const reason = "expected a range of semantic versions, for example >=10.0.0 <11.0.0";
      return { field: `operatingSystems[${i}].versions[${bad}]`, reason, value: versions[bad] };
    }
    return undefined;
  },
  passes: ({ operatingSystems }, { device: { os } }) =>
    os !== undefined &&
    operatingSystems
      .filter((wanted) => isSameSystem(wanted.type, os.type))
      .some(({ versions }) => versions.length === 0 || versions.some((range) => rangeOf(range)?.includes(os.version))),
  isTimed: () => false,
  detail: ({ operatingSystems }) => ({
    operatingSystems: operatingSystems.map(({ type, versions }) => ({
      type,
      versions: versions.length === 0 ? null : versions,
    })),
  }),
  failure: ({ operatingSystems }, { device: { os } }) => ({
    actualValue: { type: os?.type ?? "", version: os?.version ?? "" },
    expectedValue: operatingSystems,
  }),
  query: () => ({}),
  subtype: ({ operatingSystems }) => ({
    case: "osList",
    value: { osList: operatingSystems.map(({ type, versions }) => ({ osType: type, osVersions: versions })) },
  }),
  ofWire: (subtype) =>
    subtype.case === "osList"
      ? {
          operatingSystems: subtype.value.osList.map(({ osType, osVersions }) => ({
            type: osType as OsType,
            versions: osVersions,
          })),
        }
      : undefined,
};

export const osReport: ReportType<"OS", OsDevice> = {
  take: ({ id, type, version, build = "" }, at) => ({ device: { os: { at, checkId: id, type, version, build } } }),
  data: ({ os }) => ({
    os: { ...reportData(os), build: os?.build ?? "", type: os?.type ?? "", version: os?.version ?? "" },
  }),
};

/** Is it the same system, without case? Clients written in Go report macOS by the name of its kernel. */
export function isSameSystem(wanted: string, reported: string): boolean {
  const name = reported.toLowerCase();
  return wanted.toLowerCase() === (name === "darwin" ? "macos" : name);
}

const MAX_RANGES = 1000;
const ranges = new BoundedMap<string, VersionRange | undefined>(MAX_RANGES);

/** Parsing costs more than comparing a version with a range, and the same few ranges are used again and again. */
function rangeOf(text: string): VersionRange | undefined {
  if (!ranges.has(text)) ranges.set(text, parseVersionRange(text));
  return ranges.get(text);
}

const RANGE_OPTIONS = { includePrerelease: true } as const;

/**
 * A range of semantic versions as posture checks write them: comparators side by side all hold (`>=10.0.0 <11.0.0`), `||` parts alternatives,
 * and `!1.2.3` or `!=1.2.3` excludes one version.
 */
interface VersionRange {
  includes(version: string): boolean;
}

/** The range that a text means; undefined when it is none. */
export function parseVersionRange(text: string): VersionRange | undefined {
  const alternatives: { within: semver.Range; without: semver.Range[] }[] = [];
  for (const part of text.split("||")) {
    const words = part.trim().split(/\s+/);
    const excluded = words.filter((word) => word.startsWith("!")).map((word) => word.replace(/^!=?/, ""));
    const kept = words.filter((word) => !word.startsWith("!")).join(" ");
    if (part.trim() === "" || excluded.includes("")) return undefined;
    try {
      alternatives.push({
        within: new semver.Range(kept, RANGE_OPTIONS),
        without: excluded.map((each) => new semver.Range(each, RANGE_OPTIONS)),
      });
    } catch {
      return undefined;
    }
  }
  return {
    includes(version) {
      const parsed = semver.parse(version.trim());
      if (parsed === null) return false;
      return alternatives.some(
        ({ within, without }) => within.test(parsed) && !without.some((range) => range.test(parsed)),
      );
    },
  };
}
