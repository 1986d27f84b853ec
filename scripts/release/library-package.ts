/** Libraries as packages of npm: JavaScript and declarations, module by module, with what they need of the repository's other packages. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Entry, file } from "@sallyport/program/archive/entry";
import { LIBRARY_ENGINES, startFile } from "../start-file.ts";
import { ModuleError, neighbourOf, type ReachedModules, reachedModules, type Target } from "./modules.ts";

export interface Library {
  /** Its folder in `packages/`, and the last part of its name. */
  readonly name: string;
  readonly title: string;
  /** Packages of the repository that are part of it. */
  readonly holds: readonly string[];
  /** Sources that no import names: programs of threads. */
  readonly threads: readonly string[];
  /** Guide that its README points to, below `docs/`. */
  readonly guide: string;
}

const THREADS = ["packages/wire/src/socket/threads/tls-worker.ts"];

/** Each is complete without the other: no package of the repository is looked for in a registry. */
export const LIBRARIES: readonly Library[] = [
  {
    name: "sdk",
    title: "Applications on a Sallyport or OpenZiti network: dial services and host them, without an open port.",
    holds: ["async", "wire", "api"],
    threads: THREADS,
    guide: "docs/sdk.md",
  },
  {
    name: "tunnel",
    title: "A way onto a Sallyport or OpenZiti network for applications that know nothing of it.",
    holds: ["async", "wire", "api", "sdk", "config-file", "router-config", "program"],
    threads: THREADS,
    guide: "docs/tunnel.md",
  },
];

/** What a start file (../start-file.ts) of a program loads: the program's own module, which has the start file's name otherwise. */
const PROGRAM = "program.js";
const OWN = /^@sallyport\/([^/]+)(\/.+)?$/;

interface Manifest {
  readonly name: string;
  readonly license: string;
  readonly exports: Readonly<Record<string, string>>;
  readonly bin?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Folders of the packages that libraries are made of. */
export const PARTS: readonly string[] = [
  ...["async", "config-file", "wire", "router-config", "api", "sdk", "program", "tunnel"],
].map((name) => join("packages", name));

/** Sources that a library's modules are reached from. */
function sourcesOf(root: string, { name, threads }: Library): string[] {
  const manifest = manifestOf(root, name);
  const own = [...Object.values(manifest.exports), ...Object.values(manifest.bin ?? {})];
  return [...own.map((path) => join("packages", name, path)), ...threads];
}

/**
 * The files of the package, below `/package`.
 *
 * @param compiled folder with the compiler's output of its sources
 */
export function libraryEntries(root: string, library: Library, compiled: string, version: string): Entry[] {
  const { name } = library;
  const manifest = manifestOf(root, name);
  const entries = sourcesOf(root, library).map((source) => placeOf(library, source));
  const javascript = reached(
    root,
    library,
    compiled,
    entries.map((path) => path.replace(/\.ts$/, ".js")),
  );
  const declarations = reached(
    root,
    library,
    compiled,
    entries.map((path) => path.replace(/\.ts$/, ".d.ts")),
  );
  const exported = Object.entries(manifest.exports).map(([subpath, source]) => {
    const place = `./${placeOf(library, join("packages", name, source))}`;
    return [subpath, { types: place.replace(/\.ts$/, ".d.ts"), default: place.replace(/\.ts$/, ".js") }];
  });
  const bin = Object.entries(manifest.bin ?? {}).map(([program, source]): [string, string] => [
    program,
    placeOf(library, join("packages", name, source)).replace(/\.ts$/, ".js"),
  ]);
  const modules = new Map([...javascript.modules, ...declarations.modules]);
  for (const [program, path] of bin) {
    const source = modules.get(path) ?? "";
    modules.set(join(dirname(path), PROGRAM), source);
    modules.set(path, startFile({ program, source, engines: LIBRARY_ENGINES, main: `./${PROGRAM}` }));
  }
  const packages = [...new Set([...javascript.packages, ...declarations.packages])].sort();
  const published = {
    name: manifest.name,
    version,
    description: library.title,
    license: manifest.license,
    type: "module",
    engines: LIBRARY_ENGINES,
    exports: { ...Object.fromEntries(exported), "./package.json": "./package.json" },
    ...(bin.length > 0 ? { bin: Object.fromEntries(bin) } : {}),
    ...dependenciesOf(root, library, packages),
    peerDependencies: { "@types/node": LIBRARY_ENGINES.node },
    peerDependenciesMeta: { "@types/node": { optional: true } },
  };
  const programs = new Set(bin.map(([, path]) => path));
  return [
    file("/package/package.json", `${JSON.stringify(published, undefined, 2)}\n`),
    file("/package/LICENSE", readFileSync(join(root, "LICENSE"))),
    file("/package/README.md", readme(manifest.name, library)),
    ...[...modules].map(([path, text]) => file(join("/package", path), text, programs.has(path))),
  ];
}

function reached(root: string, library: Library, compiled: string, entries: readonly string[]): ReachedModules {
  const read = (path: string) => {
    const output = join(compiled, outputOf(library, path));
    return existsSync(output) ? readFileSync(output, "utf8") : undefined;
  };
  return reachedModules(entries, read, (specifier, from) => targetOf(root, library, specifier, from));
}

function targetOf(root: string, library: Library, specifier: string, from: string): Target {
  if (specifier.startsWith(".")) return { module: neighbourOf(specifier, from) };
  const [, own, subpath = ""] = OWN.exec(specifier) ?? [];
  if (own === undefined) return { specifier };
  if (own === library.name || library.holds.includes(own)) {
    const place = placeOf(library, sourceOf(root, own, `.${subpath}`));
    return { module: neighbourOf(`./${place}`, from.endsWith(".d.ts") ? "index.d.ts" : "index.js") };
  }
  throw new ModuleError(`${from} names ${specifier}, which @sallyport/${library.name} does not hold`);
}

/** Where a source lies in the package: its own in `lib`, those of parts that it holds in `parts`. */
function placeOf(library: Library, source: string): string {
  const [, folder = "", , ...path] = source.split("/");
  return join(folder === library.name ? "lib" : join("parts", folder), ...path);
}

/** The reverse, in the compiler's output. */
function outputOf(library: Library, place: string): string {
  const [top, ...path] = place.split("/");
  const [folder = "", ...rest] = top === "lib" ? [library.name, ...path] : path;
  return join("packages", folder, "src", ...rest);
}

function sourceOf(root: string, name: string, subpath: string): string {
  const source = manifestOf(root, name).exports[subpath];
  if (source === undefined) throw new ModuleError(`@sallyport/${name} exports nothing as ${subpath}`);
  return join("packages", name, source);
}

/** Ranges as the repository's packages have them, of those npm packages that are asked for. */
function dependenciesOf(root: string, library: Library, packages: readonly string[]) {
  const manifests = [library.name, ...library.holds].map((name) => manifestOf(root, name));
  const needed = Object.assign({}, ...manifests.map((each) => each.dependencies)) as Record<string, string>;
  const optional = Object.assign({}, ...manifests.map((each) => each.optionalDependencies)) as Record<string, string>;
  const dependencies: Record<string, string> = {};
  const optionalDependencies: Record<string, string> = {};
  for (const name of packages) {
    if (needed[name] !== undefined) dependencies[name] = needed[name];
    else if (optional[name] !== undefined) optionalDependencies[name] = optional[name];
    else
      throw new ModuleError(`@sallyport/${library.name} asks for ${name}, which is a dependency of none of its parts`);
  }
  return Object.keys(optionalDependencies).length > 0 ? { dependencies, optionalDependencies } : { dependencies };
}

function manifestOf(root: string, name: string): Manifest {
  return JSON.parse(readFileSync(join(root, "packages", name, "package.json"), "utf8")) as Manifest;
}

function readme(name: string, { title, guide }: Library): string {
  return `# ${name}\n\n${title}\n\nRuns on Node 22 and later. The guide is \`${guide}\` in the repository of Sallyport.\n`;
}
