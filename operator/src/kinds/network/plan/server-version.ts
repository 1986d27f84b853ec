import { type NetworkProblem, stalled } from "./problem.ts";

/** What the operator reads of a controller's version document. */
export interface VersionDocument {
  readonly version?: string;
  readonly apiVersions?: Readonly<Record<string, Readonly<Record<string, { readonly version?: string | undefined }>>>>;
}

/** The oldest generation whose Management API has everything that the operator uses. */
const OLDEST = [1, 5] as const;
const API = "edge-management";
const API_VERSION = "v1";

export interface ServerVersion {
  readonly serverVersion: string;
  readonly apiVersion?: string;
  readonly problem?: NetworkProblem;
}

/** Whether the operator can work with a controller. Builds without a number, as developers have them, are taken for new. */
export function serverVersion({ version = "", apiVersions = {} }: VersionDocument): ServerVersion {
  const api = apiVersions[API]?.[API_VERSION];
  const found = { serverVersion: version, ...(api === undefined ? {} : { apiVersion: api.version ?? API_VERSION }) };
  if (api === undefined) {
    const names = Object.keys(apiVersions).sort().join(", ") || "none";
    return {
      ...found,
      problem: stalled(
        "UnsupportedVersion",
        `the server offers no ${API} ${API_VERSION} (it offers ${names}): is the address that of a controller's Management API?`,
      ),
    };
  }
  const match = /^v?(\d+)\.(\d+)/.exec(version);
  const [major, minor] = [Number(match?.[1] ?? 0), Number(match?.[2] ?? 0)];
  const isNumbered = match !== null && major + minor > 0;
  if (!isNumbered || major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return found;
  return {
    ...found,
    problem: stalled(
      "UnsupportedVersion",
      `the controller is of version ${version}; the operator works with ${OLDEST.join(".")} and newer: upgrade the controller`,
    ),
  };
}
