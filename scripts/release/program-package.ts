/** Programs as packages of npm: JavaScript with all that a program needs but native modules, as images have it. */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { type Entry, file } from "@sallyport/program/archive/entry";

export interface Program {
  readonly name: string;
  readonly title: string;
}

/** What users install by npm; the tunneler is a library's program (library-package.ts). */
export const PROGRAMS: readonly Program[] = [
  { name: "controller", title: "The controller of a Sallyport network, with its embedded PostgreSQL." },
  { name: "router", title: "The edge router of a Sallyport or OpenZiti network." },
  { name: "operator", title: "Keeps Sallyport networks on Kubernetes from resources." },
  { name: "cli", title: "The command line for administrators of Sallyport and OpenZiti networks." },
];

/**
 * The files of the package, below `/package`.
 *
 * @param packed folder into which the program was packed (scripts/pack.ts)
 */
export function programEntries(root: string, { name, title }: Program, packed: string): Entry[] {
  const manifest = JSON.parse(readFileSync(join(packed, "package.json"), "utf8")) as {
    readonly name: string;
    readonly bin: Readonly<Record<string, string>>;
  };
  const published = { description: title, exports: { "./package.json": "./package.json" } };
  const [program = ""] = Object.keys(manifest.bin);
  const readme = `# ${manifest.name}\n\n${title}\n\nThe program \`${program}\`, for Node 26 and later; there is nothing to import. The guide is \`docs/${name}.md\` in the repository of Sallyport.\n`;
  const starts = new Set(Object.values(manifest.bin));
  return [
    file("/package/package.json", `${JSON.stringify({ ...manifest, ...published }, undefined, 2)}\n`),
    file("/package/LICENSE", readFileSync(join(root, "LICENSE"))),
    file("/package/README.md", readme),
    ...filesBelow(packed)
      .filter((path) => path !== "package.json")
      .map((path) => file(join("/package", path), readFileSync(join(packed, path)), starts.has(path))),
  ];
}

/** Regular files, by their paths below the folder, in one order. */
export function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();
}
