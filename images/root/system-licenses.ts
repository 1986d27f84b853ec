import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Entry, file } from "@sallyport/program/archive/entry";
import { LicenseError } from "../../scripts/licenses/license-texts.ts";

const DOCUMENTATION = "/usr/share/doc";
/** Texts that are the same for many packages, which name them instead of repeating them. */
const SHARED = /\/usr\/share\/common-licenses\/[\w+.-]*[\w+]/g;

/**
 * Licences of what is taken from this system, which is Debian or one of its relatives: `/usr/share/doc/<package>/copyright`, and the texts in
 * `/usr/share/common-licenses/` that these name.
 *
 * @param sources files of this machine
 * @param unpacked folders into which packages of the system were unpacked without being installed: of a file below one, the licences of all packages there
 * @throws LicenseError for a file of which the package is not known, and for a package or a shared text that is not there
 */
export function systemLicenses(sources: readonly string[], unpacked: readonly string[] = []): Entry[] {
  const isBelow = (root: string) => (source: string) => source.startsWith(`${root}/`);
  const installed = ownersOf(sources.filter((source) => !unpacked.some((root) => isBelow(root)(source))));
  const copyrights = new Map(installed.map((name) => [name, join(DOCUMENTATION, name, "copyright")]));
  for (const root of unpacked.filter((root) => sources.some(isBelow(root)))) {
    for (const name of readdirSync(join(root, DOCUMENTATION)))
      copyrights.set(name, join(root, DOCUMENTATION, name, "copyright"));
  }
  const entries = new Map<string, Entry>();
  for (const [name, path] of copyrights) {
    const text = textOf(path, `the package ${name}`);
    entries.set(name, file(join(DOCUMENTATION, name, "copyright"), text));
    for (const [shared] of text.toString("utf8").matchAll(SHARED))
      entries.set(shared, file(shared, textOf(shared, `the package ${name}, which names it,`)));
  }
  return [...entries.values()];
}

function textOf(path: string, whose: string): Buffer {
  if (existsSync(path)) return readFileSync(path);
  throw new LicenseError(
    `${path} is not there, and ${whose} is part of an image: install the documentation of the package`,
  );
}

/** Names of the packages that the files belong to. */
function ownersOf(paths: readonly string[]): string[] {
  if (paths.length === 0) return [];
  // Packages made before /lib became a link to /usr/lib are listed with the old path.
  const asked = paths.flatMap((path) => [path, path.replace(/^\/usr\/(?=lib|s?bin)/, "/")]);
  const { stdout, error } = spawnSync("dpkg-query", ["--search", ...new Set(asked)], {
    encoding: "utf8",
    env: { ...process.env, LC_ALL: "C" },
  });
  if (error !== undefined)
    throw new LicenseError(
      `${paths[0]} is part of an image, and only systems of Debian's kind say here which licence it has (dpkg-query: ${error.message}): build by a Containerfile, whose BUILDER is one`,
    );
  const owners = new Map(
    stdout
      .split("\n")
      .map((line) => /^(?!diversion by )(.+): (\/.*)$/.exec(line) ?? [])
      .map(([, names = "", path = ""]) => [path.replace(/^\/usr(?=\/)/, ""), names]),
  );
  const names = paths.flatMap((path) => {
    const found = owners.get(path.replace(/^\/usr(?=\/)/, ""));
    if (found === undefined)
      throw new LicenseError(`${path} is part of an image, and belongs to no package of this system`);
    return found.split(", ").map((name) => name.replace(/:.*$/, ""));
  });
  return [...new Set(names)].sort();
}
