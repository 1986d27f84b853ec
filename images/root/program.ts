import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { type Entry, file, link } from "@sallyport/program/archive/entry";
import { build } from "rolldown";
import { bundledPackages } from "../../scripts/licenses/bundled-packages.ts";
import type { LicenseText } from "../../scripts/licenses/license-texts.ts";
import { pack } from "../../scripts/pack.ts";
import { librariesOf } from "../elf/libraries.ts";
import { NODE, PROGRAM_FOLDER, type ProgramImage } from "../programs.ts";
import { placedEntries } from "./base.ts";
import { licenseEntries, packageLicenses } from "./license-entries.ts";
import { nodeModules } from "./node-modules.ts";
import { systemLicenses } from "./system-licenses.ts";
import { toolEntries } from "./tools.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const LICENSE = "LICENSE";

/** The program itself, as it lies above the base. */
export interface ProgramRoot {
  readonly version: string;
  readonly license: string;
  /** What the system and npm bring: changes seldom. */
  readonly parts: readonly Entry[];
  /** Programs of the repository: change with every release. */
  readonly program: readonly Entry[];
}

/** How programs are packed for their images. */
export interface Packing {
  /** In place of the repository's. */
  readonly version?: string;
  /** Folder that has one for each program; `dist`. */
  readonly folder?: string;
}

/**
 * @param base paths that the layer below holds: libraries and licences found there are not brought again
 * @throws LicenseError for a part whose licence has no text here
 */
export async function programRoot(
  image: ProgramImage,
  base: ReadonlySet<string>,
  packing: Packing = {},
): Promise<ProgramRoot> {
  const out = join(packing.folder ?? join(ROOT, "dist"), image.program);
  const folder = join(await pack(image.program, out, packing.version), "..", "..");
  const manifestText = readFileSync(join(folder, "package.json"), "utf8");
  const manifest = JSON.parse(manifestText) as {
    version: string;
    license: string;
    dependencies: Record<string, string>;
    optionalDependencies: Record<string, string>;
  };
  const modules = nodeModules(ROOT, manifest, PROGRAM_FOLDER);
  const libraries = librariesOf(modules.binaries).filter(({ path }) => !base.has(path));
  const system = [
    ...toolEntries(image.tools),
    ...placedEntries(libraries),
    ...systemLicenses(libraries.map(({ source }) => source)),
  ];
  const packed = readdirSync(join(folder, "lib"))
    .sort()
    .map((name) => script(name, readFileSync(join(folder, "lib", name), "utf8")));
  const helpers = await Promise.all(Object.entries(image.helpers).map(([name, source]) => helper(name, source)));
  return {
    version: manifest.version,
    license: manifest.license,
    parts: [...system.filter((entry) => !base.has(entry.path)), ...modules.entries, ...packageLicenses(modules.homes)],
    program: [
      file(join(PROGRAM_FOLDER, "package.json"), manifestText),
      file(join(PROGRAM_FOLDER, LICENSE), readFileSync(join(ROOT, LICENSE))),
      ...packed,
      ...helpers.flat(),
      ...licenseEntries(textsBelow(join(folder, "licenses"))),
      link(`/usr/local/bin/sallyport-${image.program}`, join(PROGRAM_FOLDER, "lib/main.js")),
      ...Object.entries(image.links).map(([path, target]) => link(path, join(PROGRAM_FOLDER, target))),
    ],
  };
}

/** What the packer has put beside a program. */
function textsBelow(folder: string): LicenseText[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((path) => ({ path: relative(folder, path), content: readFileSync(path) }));
}

/** A file that runs on its own, packed as the program is, with the licences of what is in it. */
async function helper(name: string, source: string): Promise<Entry[]> {
  const { output } = await build({
    cwd: ROOT,
    input: { [name]: source },
    platform: "node",
    logLevel: "warn",
    write: false,
    output: { format: "esm", entryFileNames: "[name].js" },
  });
  return [script(`${name}.js`, output[0].code), ...packageLicenses(bundledPackages(ROOT, output))];
}

/** Can be started by its path where it says by what; an image has no `env` that would look for Node. */
function script(name: string, text: string): Entry {
  const code = text.replace(/^#!.*\n/, `#!${NODE}\n`);
  return file(join(PROGRAM_FOLDER, "lib", name), code, code.startsWith("#!"));
}
