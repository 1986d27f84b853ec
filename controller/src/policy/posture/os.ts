import { type PostureType, type Report, type ReportType, reportData } from "./posture-type.ts";
import { parseVersionRange } from "./version-range.ts";

export interface OsDevice {
  readonly os?: Report & { readonly type: string; readonly version: string; readonly build: string };
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
const ranges = new Map<string, ReturnType<typeof parseVersionRange>>();

/** Parsing costs more than holding a version against a range, and the same few ranges are asked for again and again. */
function rangeOf(text: string): ReturnType<typeof parseVersionRange> {
  if (!ranges.has(text)) {
    if (ranges.size >= MAX_RANGES) ranges.clear();
    ranges.set(text, parseVersionRange(text));
  }
  return ranges.get(text);
}
