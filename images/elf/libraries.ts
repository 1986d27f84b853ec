import { existsSync, readFileSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { type Elf, ElfError, readElf } from "./elf.ts";

/** A file of this machine and where it lies in an image. */
export interface Placed {
  readonly path: string;
  readonly source: string;
}

/** Where the loader of Debian, Fedora and their relatives looks without being told. */
const TRIPLETS: Readonly<Record<Elf["arch"], string>> = { x64: "x86_64-linux-gnu", arm64: "aarch64-linux-gnu" };

/** Folders in which the loader looks for the libraries of programs of that kind. */
export function systemFolders(arch: Elf["arch"]): string[] {
  const triplet = TRIPLETS[arch];
  return ["/lib", "/usr/lib"].flatMap((lib) => [join(lib, triplet), `${lib}64`, lib]);
}

/**
 * Loader and libraries of the system that the programs and libraries need, and those that these need in turn. What lies below the programs' own
 * folders (`$ORIGIN`) is not among them: it comes along with the program.
 *
 * @param files programs and libraries of this machine
 * @param more folders in which libraries are looked for before the system's; what is found there is placed into the system's, too
 * @throws ElfError for one that cannot be found
 */
export function librariesOf(files: readonly string[], more: readonly string[] = []): Placed[] {
  const placed = new Map<string, string>();
  const seen = new Set<string>();
  const waiting = files.map((file) => ({ file, inherited: [] as readonly string[] }));
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const { file, inherited } = next;
    if (seen.has(file)) continue;
    seen.add(file);
    const elf = readElf(readFileSync(file), file);
    if (elf.interpreter !== undefined) placed.set(elf.interpreter, realpathSync(elf.interpreter));
    const own = [...elf.runPath.map((folder) => folder.replace(/\$ORIGIN|\$\{ORIGIN\}/, dirname(file))), ...inherited];
    for (const name of elf.needed) {
      const inOwn = own.map((folder) => join(folder, name)).find(existsSync);
      if (inOwn !== undefined) {
        waiting.push({ file: inOwn, inherited: own });
        continue;
      }
      if (basename(elf.interpreter ?? "") === name || [...placed.keys()].some((path) => basename(path) === name))
        continue;
      const found = [...more, ...systemFolders(elf.arch)].map((folder) => join(folder, name)).find(existsSync);
      if (found === undefined) throw new ElfError(`${file} needs ${name}, which is not on this machine: install it`);
      placed.set(placeOf(found, elf.arch, more), realpathSync(found));
      waiting.push({ file: found, inherited: [] });
    }
  }
  return [...placed].map(([path, source]) => ({ path, source })).sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** The same folder with `/usr` in front, so that it is a folder and no link in every system, and the loader looks there. */
function placeOf(library: string, arch: Elf["arch"], more: readonly string[]): string {
  const folder = dirname(library);
  const system = more.includes(folder) ? join("/usr/lib", TRIPLETS[arch]) : folder.replace(/^\/lib/, "/usr/lib");
  return join(system, basename(library));
}
