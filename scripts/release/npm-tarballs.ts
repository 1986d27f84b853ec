/** Packages for npm as files that `npm install` takes. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Entry } from "@sallyport/program/archive/entry";
import { tarball } from "@sallyport/program/archive/tarball";
import { pack } from "../pack.ts";
import { compile } from "./compile.ts";
import { LIBRARIES, libraryEntries, PARTS } from "./library-package.ts";
import { filesBelow, PROGRAMS, programEntries } from "./program-package.ts";

export interface NpmTarball {
  /** `sallyport-sdk-1.2.3.tgz` */
  readonly file: string;
  /** `@sallyport/sdk` */
  readonly name: string;
  readonly bytes: Buffer;
  /** Names of the packages that npm installs with it, required and optional ones. */
  readonly dependencies: readonly string[];
  /** Packages of which there is code in it. */
  readonly bundled: readonly (readonly [name: string, version: string])[];
}

interface Release {
  /** Of the repository. */
  readonly root: string;
  readonly version: string;
  /** Date of everything in them, in seconds since 1970. */
  readonly madeAt: number;
}

/**
 * The libraries.
 *
 * @param o.folder for what the compiler writes
 * @param o.isChecked types were checked before: half of the work
 */
export function libraryTarballs(o: Release & { readonly folder: string; readonly isChecked?: boolean }): NpmTarball[] {
  compile(o.root, PARTS, o.folder, o);
  return LIBRARIES.map((library) => npmTarball(libraryEntries(o.root, library, o.folder, o.version), o, []));
}

/**
 * The programs.
 *
 * @param packed folder that has one for each program (../pack.ts); those that are missing are packed into it
 */
export async function programTarballs(release: Release, packed: string): Promise<NpmTarball[]> {
  const tarballs: NpmTarball[] = [];
  for (const program of PROGRAMS) {
    const folder = join(packed, program.name);
    if (!existsSync(folder)) await pack(program.name, folder, release.version);
    tarballs.push(npmTarball(programEntries(release.root, program, folder), release, bundledIn(folder)));
  }
  return tarballs;
}

function npmTarball(
  entries: readonly Entry[],
  { version, madeAt }: Release,
  bundled: NpmTarball["bundled"],
): NpmTarball {
  const { name, dependencies, optionalDependencies } = manifestIn(entries);
  return {
    file: `${name.replace("@", "").replace("/", "-")}-${version}.tgz`,
    name,
    bytes: tarball(entries, madeAt),
    dependencies: Object.keys({ ...dependencies, ...optionalDependencies }),
    bundled,
  };
}

/** The packer has put the licence of each beside the program. */
function bundledIn(folder: string): NpmTarball["bundled"] {
  const names = filesBelow(join(folder, "licenses")).map((path) => /^((?:@[^/]+\/)?[^/]+)@([^/@]+)\//.exec(path) ?? []);
  const unique = new Map(names.map(([, name = "", version = ""]) => [`${name}@${version}`, [name, version] as const]));
  return [...unique.values()];
}

function manifestIn(entries: readonly Entry[]) {
  const found = entries.find((entry) => entry.path === "/package/package.json");
  if (found?.kind !== "file") throw new TypeError("a package without package.json");
  return JSON.parse(found.content.toString("utf8")) as {
    readonly name: string;
    readonly dependencies?: Readonly<Record<string, string>>;
    readonly optionalDependencies?: Readonly<Record<string, string>>;
  };
}
