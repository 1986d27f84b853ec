import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** It is not known which version of a package an image holds. */
export class SystemVersionError extends Error {
  override name = "SystemVersionError";
}

const INSTALLER = join(import.meta.dirname, "../../install-tools.sh");

/**
 * Versions of packages of this system: as dpkg has them, or, of those that were fetched for an image and never installed, as their archives are called.
 *
 * @throws SystemVersionError
 */
export function systemVersions(names: readonly string[]): Map<string, string> {
  if (names.length === 0) return new Map();
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg fills it
  const format = "--showformat=${Package}\\t${Version}\\t${db:Status-Status}\\n";
  const { stdout, error } = spawnSync("dpkg-query", ["--show", format, ...names], { encoding: "utf8" });
  if (error !== undefined) throw new SystemVersionError(`dpkg-query cannot be started: ${error.message}`);
  const known = new Map(
    stdout
      .split("\n")
      .map((line) => line.split("\t"))
      .filter(([, , status]) => status === "installed")
      .map(([name = "", version = ""]) => [name, version]),
  );
  const missing = names.filter((name) => !known.has(name));
  const archives = missing.length > 0 ? fetchedArchives() : [];
  for (const name of missing) {
    const version = archiveVersion(archives, name);
    if (version === undefined)
      throw new SystemVersionError(`the package ${name} is part of an image, and neither installed nor fetched here`);
    known.set(name, version);
  }
  return new Map([...known].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** `libnftables1_1.0.6-2+deb12u2_amd64.deb`, in which a colon is written as `%3a`. */
export function archiveVersion(archives: readonly string[], name: string): string | undefined {
  const archive = archives.find((each) => each.startsWith(`${name}_`));
  const version = archive?.split("_")[1];
  return version === undefined ? undefined : decodeURIComponent(version);
}

/** Debian's name for the system, as `/etc/os-release` has it. */
export function systemName(): string {
  return /^ID=(.+)$/m.exec(readFileSync("/etc/os-release", "utf8"))?.[1]?.replaceAll('"', "") ?? "debian";
}

function fetchedArchives(): string[] {
  const { stdout } = spawnSync(INSTALLER, ["nft"], { encoding: "utf8" });
  const folder = join(dirname(stdout.trim()), "archives");
  return existsSync(folder) ? readdirSync(folder) : [];
}
