/** The standalone folder as packages of Debian and RPM, made by nfpm (`nfpm/go.mod`). */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { writeFolder } from "../../../images/archive/folder.ts";
import type { StandaloneFolder } from "./folder.ts";
import { DEBIAN_NAMES, type Processor } from "./runtime.ts";

const FILES = join(import.meta.dirname, "files");
const HOME = "/usr/lib/sallyport";
const RPM: Readonly<Record<Processor, string>> = { x64: "x86_64", arm64: "aarch64" };
/** Where a file of `systemd/` goes, by its ending. */
const PLACES: Readonly<Record<string, (name: string) => string>> = {
  service: (name) => `/usr/lib/systemd/system/${name}`,
  sysusers: () => "/usr/lib/sysusers.d/sallyport.conf",
  tmpfiles: () => "/usr/lib/tmpfiles.d/sallyport.conf",
};

/**
 * Both packages, by their file names.
 *
 * @param o.madeAt date of everything in them, in seconds since 1970
 * @param o.work folder for what is needed on the way
 */
export function linuxPackages(
  program: string,
  folder: StandaloneFolder,
  o: { readonly processor: Processor; readonly version: string; readonly madeAt: number; readonly work: string },
): Map<string, Buffer> {
  const { processor, version, madeAt, work } = o;
  const tree = join(work, "tree");
  writeFolder(
    tree,
    folder.entries.filter(({ path }) => !path.startsWith("/systemd/")),
  );
  const units = join(work, "units");
  const ofSystemd = folder.entries.filter(({ path }) => path.startsWith("/systemd/"));
  writeFolder(units, ofSystemd);
  const systemd = ofSystemd.map(({ path }) => path.slice("/systemd/".length));
  const libatomic = (name: string) => (folder.libatomic === undefined ? [name] : []);
  const config = {
    name: "sallyport",
    arch: DEBIAN_NAMES[processor],
    platform: "linux",
    version,
    section: "net",
    maintainer: "Sallyport",
    description:
      "Zero-trust overlay network: controller, edge router, tunneler, operator and command line.\nWith its own Node and the embedded database of the controller.",
    license: "Apache-2.0",
    mtime: new Date(madeAt * 1_000).toISOString(),
    contents: [
      { src: tree, dst: HOME, type: "tree" },
      ...folder.programs.map((name) => ({ src: `${HOME}/bin/${name}`, dst: `/usr/bin/${name}`, type: "symlink" })),
      ...systemd.map((name) => ({ src: join(units, "systemd", name), dst: placeOf(name), file_info: { mode: 0o644 } })),
      { src: join(tree, "LICENSE"), dst: "/usr/share/doc/sallyport/copyright", file_info: { mode: 0o644 } },
    ],
    scripts: { postinstall: join(FILES, "after-install.sh"), preremove: join(FILES, "before-remove.sh") },
    overrides: {
      deb: {
        depends: ["libc6 (>= 2.28)", "libstdc++6", ...libatomic("libatomic1")],
        recommends: ["iproute2", "nftables"],
      },
      rpm: { depends: ["glibc >= 2.28", "libstdc++", ...libatomic("libatomic")], recommends: ["iproute", "nftables"] },
    },
    deb: { compression: "zstd" },
    rpm: { compression: "zstd", buildhost: "sallyport", summary: "Zero-trust overlay network" },
  };
  const settings = join(work, "nfpm.yaml");
  writeFileSync(settings, stringify(config));
  const files = {
    deb: `sallyport_${version}_${DEBIAN_NAMES[processor]}.deb`,
    rpm: `sallyport-${version}.${RPM[processor]}.rpm`,
  };
  mkdirSync(join(work, "made"), { recursive: true });
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(madeAt) };
  return new Map(
    Object.entries(files).map(([packager, name]) => {
      const target = join(work, "made", name);
      execFileSync(program, ["package", "--config", settings, "--packager", packager, "--target", target], {
        env,
        stdio: ["ignore", "ignore", "inherit"],
      });
      return [name, readFileSync(target)];
    }),
  );
}

function placeOf(name: string): string {
  const place = PLACES[name.slice(name.lastIndexOf(".") + 1)];
  if (place === undefined) throw new TypeError(`${name} has no place: add its ending to PLACES`);
  return place(name);
}
