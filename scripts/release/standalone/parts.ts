/** What users install without npm: an archive for each processor, packages of Debian and RPM, and a script that installs an archive. */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { completed } from "@sallyport/program/archive/entry";
import { tarOf } from "@sallyport/program/archive/tar";
import { PROGRAMS, pack } from "../../pack.ts";
import type { Part, Plan } from "../parts.ts";
import type { Artifact, Component } from "../sbom/cyclonedx.ts";
import { imageParts, type Origins } from "../sbom/image-parts.ts";
import { type StandaloneFolder, standaloneFolder } from "./folder.ts";
import { linuxPackages } from "./linux-packages.ts";
import { DEBIAN_NAMES, PROCESSORS, type Processor } from "./runtime.ts";
import { releaseTool } from "./tools.ts";

/** @param packed folder that has one for each packed program; those that are missing are packed into it */
export async function standalone(plan: Plan, origins: Origins, packed: string): Promise<Part> {
  const programs = new Map<string, string>();
  for (const name of Object.keys(PROGRAMS)) {
    const folder = join(packed, name);
    if (!existsSync(folder)) await pack(name, folder, plan.version);
    programs.set(name, folder);
  }
  const files = new Map<string, Buffer>();
  const artifacts: Artifact[] = [];
  const packager = releaseTool(plan.root, "nfpm", "THE RELEASE HAS NO DEBIAN AND RPM PACKAGES");
  for (const processor of PROCESSORS) {
    const work = join(plan.work, "standalone", processor);
    const debian = DEBIAN_NAMES[processor];
    const without = `THE ARCHIVE FOR ${processor} NEEDS LIBATOMIC OF THE SYSTEM`;
    const libatomic = releaseTool(plan.root, `libatomic-${debian}`, without);
    const folder = standaloneFolder(processor, {
      root: plan.root,
      lock: origins.lock,
      packed: programs,
      work,
      libatomic,
    });
    const parts = partsOf(folder, { ...origins, architecture: debian });
    const made = new Map([[`sallyport-${plan.version}-linux-${processor}.tar.gz`, archive(folder, processor, plan)]]);
    if (packager !== undefined)
      for (const [name, bytes] of linuxPackages(packager, folder, { ...plan, processor, work })) made.set(name, bytes);
    for (const [name, bytes] of made) {
      files.set(name, bytes);
      artifacts.push({ component: componentOf(name, plan.version, bytes), parts });
    }
  }
  files.set("install.sh", Buffer.from(installScript(plan.version)));
  return { files, artifacts };
}

/** With its version. */
export function installScript(version: string): string {
  return readFileSync(join(import.meta.dirname, "files/install.sh"), "utf8").replaceAll("@VERSION@", version);
}

function archive({ entries }: StandaloneFolder, processor: Processor, { version, madeAt }: Plan): Buffer {
  const top = `/sallyport-${version}-linux-${processor}`;
  const placed = entries.map((entry) => ({ ...entry, path: `${top}${entry.path}` }));
  // Level 9 takes three times as long for a hundredth less.
  return gzipSync(tarOf(completed(placed), madeAt), { level: 6 });
}

/** Told by the licences, as those of images are. */
function partsOf({ entries, libatomic }: StandaloneFolder, origins: Origins): Component[] {
  const paths = entries.map(({ path }) => path.replace(/^\/licenses\//, "/usr/share/licenses/"));
  if (libatomic === undefined) return imageParts(paths, origins);
  const systemVersions = () => new Map([["libatomic1", libatomic]]);
  return imageParts([...paths, "/usr/share/doc/libatomic1/copyright"], { ...origins, systemVersions });
}

function componentOf(file: string, version: string, bytes: Buffer): Component {
  const hashes = [{ alg: "SHA-256", content: createHash("sha256").update(bytes).digest("hex") }] as const;
  const purl = `pkg:generic/sallyport@${version}?file_name=${encodeURIComponent(file)}`;
  return { type: "application", purl, name: file, version, license: "Apache-2.0", hashes };
}
