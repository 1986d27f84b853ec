/** One folder with all programs, Node and the embedded database: it runs on any Linux with glibc, wherever it lies. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Entry, file } from "@sallyport/program/archive/entry";
import { PACKAGED, systemFolder, unitName, unitText } from "../../../cli/src/service/unit.ts";
import { withoutDebugParts } from "../../../images/elf/elf.ts";
import { nodeModules } from "../../../images/root/node-modules.ts";
import { licenseTexts } from "../../licenses/license-texts.ts";
import { nodeFlags } from "../../start-file.ts";
import { filesBelow } from "../program-package.ts";
import type { Lock } from "../sbom/npm-parts.ts";
import { type Processor, runtimeFor } from "./runtime.ts";

/** systemd's files by their names, which a package puts into its places. */
function systemdFiles(): Map<string, Buffer> {
  const folder = join(import.meta.dirname, "files/systemd");
  const files = new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
  for (const service of PACKAGED) {
    const place = { folder: systemFolder(service), command: [`/usr/bin/sallyport-${service}`] };
    files.set(unitName(service), Buffer.from(unitText({ service, scope: "system", ...place })));
  }
  return new Map([...files].sort(([a], [b]) => (a < b ? -1 : 1)));
}

interface Manifest {
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
}

export interface StandaloneFolder {
  /** Below `/`. */
  readonly entries: readonly Entry[];
  /** Names of the programs in `/bin`. */
  readonly programs: readonly string[];
  /** Version of Debian's package of libatomic that it has; undefined when the system has to have one. */
  readonly libatomic: string | undefined;
}

/**
 * @param o.packed folders of the packed programs, by their names (../../pack.ts)
 * @param o.work folder for what is fetched
 * @param o.libatomic folder of the library that Node needs and small systems do not have, with its licence and version
 * @throws FetchError, ModulesError, LicenseError
 */
export function standaloneFolder(
  processor: Processor,
  o: {
    readonly root: string;
    readonly lock: Lock;
    readonly packed: ReadonlyMap<string, string>;
    readonly work: string;
    readonly libatomic: string | undefined;
  },
): StandaloneFolder {
  const programs = [...o.packed].map(([name, folder]) => {
    const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
    return { name, folder, manifest };
  });
  const needed = {
    dependencies: Object.assign({}, ...programs.map(({ manifest }) => manifest.dependencies)) as Record<string, string>,
    optionalDependencies: Object.assign({}, ...programs.map(({ manifest }) => manifest.optionalDependencies)) as Record<
      string,
      string
    >,
  };
  const names = Object.keys({ ...needed.dependencies, ...needed.optionalDependencies });
  const runtime = runtimeFor(processor, { root: o.root, lock: o.lock, names, into: join(o.work, processor) });
  const modules = nodeModules(runtime.root, needed, "/", processor);
  const node = readFileSync(join(runtime.node, "bin/node"));
  const own = ["LICENSE", "CHANGELOG.md"].map((path) => file(`/${path}`, readFileSync(join(o.root, path))));
  const systemd = [...systemdFiles()].map(([name, content]) => file(`/systemd/${name}`, content));
  const licenses = licenseTexts([runtime.node, ...modules.homes]).map(({ path, content }) =>
    // The same under the name that images give Node.
    file(join("/licenses", path.replace(/^node-linux-[^@]+@/, "node@")), content),
  );
  const library = (name: string) => readFileSync(join(o.libatomic ?? "", name));
  return {
    libatomic: o.libatomic === undefined ? undefined : library("version").toString().trim(),
    programs: programs.flatMap(({ manifest }) => Object.keys(manifest.bin)).sort(),
    entries: [
      ...own,
      ...systemd,
      file("/runtime/node", withoutDebugParts(node, `node for ${processor}`), true),
      ...(o.libatomic === undefined
        ? []
        : [
            file("/runtime/lib/libatomic.so.1", library("libatomic.so.1")),
            file("/licenses/libatomic1/copyright", library("copyright")),
          ]),
      ...modules.entries,
      ...licenses,
      ...programs.flatMap(({ name, folder, manifest }) => programEntries(name, folder, manifest)),
    ],
  };
}

function programEntries(name: string, folder: string, { bin }: Manifest): Entry[] {
  const source = readFileSync(join(folder, "lib/program.js"), "utf8");
  const [program = ""] = Object.keys(bin);
  const place = (path: string) => (path.startsWith("licenses/") ? `/${path}` : `/programs/${name}/${path}`);
  return [
    ...filesBelow(folder).map((path) => file(place(path), readFileSync(join(folder, path)))),
    file(`/bin/${program}`, launcher(name, nodeFlags(source)), true),
  ];
}

function launcher(name: string, flags: readonly string[]): string {
  const options = flags.map((flag) => `${flag} `).join("");
  return `#!/bin/sh
# Starts the program with the Node of its folder, whatever link leads here.
home=$(dirname "$(dirname "$(readlink -f "$0")")")
export LD_LIBRARY_PATH="$home/runtime/lib\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$home/runtime/node" ${options}"$home/programs/${name}/lib/main.js" "$@"
`;
}
