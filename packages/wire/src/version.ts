import { ProtocolError } from "./errors.ts";

/**
 * The protocol generation announced on the wire and in `/version`; peers switch features on by it (docs/protocol/channel.md, "Version info"). It satisfies every
 * comparison of clients of 1.6 and 2.x, which ask for 1.1.0 at most, and routers of 2.x go by capabilities.
 */
export const PROTOCOL_VERSION = "v1.6.20";

/** What a component says about its build: five fields joined by `|`. */
export interface VersionInfo {
  readonly version: string;
  readonly revision: string;
  readonly buildDate: string;
  readonly os: string;
  readonly arch: string;
}

const REVISION = "sallyport";
const BUILD_DATE = "2026-11-21 00:00:00";
const VERSION = /^v?\d+(\.\d+)*(-[0-9A-Za-z.-]+)?$/;

/** This program's version info, for header 4 of a hello or its result. */
export function versionInfo(): string {
  const arch = process.arch === "x64" ? "amd64" : process.arch;
  const os = process.platform === "win32" ? "windows" : process.platform;
  return [PROTOCOL_VERSION, REVISION, BUILD_DATE, os, arch].join("|");
}

/** @throws ProtocolError `BAD_VERSION` unless there are exactly five fields and the first is a version number */
export function parseVersionInfo(text: string): VersionInfo {
  const fields = text.split("|");
  const [version = "", revision = "", buildDate = "", os = "", arch = ""] = fields;
  if (fields.length !== 5 || !VERSION.test(version)) {
    throw new ProtocolError(
      "BAD_VERSION",
      `expected version|revision|build date|os|arch with a version such as ${PROTOCOL_VERSION}, got ${JSON.stringify(text.slice(0, 200))}`,
    );
  }
  return { version, revision, buildDate, os, arch };
}

/**
 * Whether an announced version is at least `since`. Development builds (0.0.0) are newer than everything, a pre-release is
 * older than its release, and what is no version is older than everything.
 */
export function isAtLeast(version: string, since: readonly [number, number, number]): boolean {
  const match = /^v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?$/.exec(version);
  if (match === null) return false;
  const numbers = [Number(match[1]), Number(match[2]), Number(match[3])];
  if (numbers.every((n) => n === 0)) return true;
  for (const [i, wanted] of since.entries()) {
    const number = numbers[i] ?? 0;
    if (number !== wanted) return number > wanted;
  }
  return match[4] === undefined;
}
