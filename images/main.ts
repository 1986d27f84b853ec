/**
 * Makes the container images of the programs: `node images/main.ts [options] [program…]`, `make images`.
 *
 *   --repository NAME   images are called NAME/<program> (sallyport)
 *   --tag TAG           the version of the package unless given
 *   --out FOLDER        where the archives go (dist/images)
 *   --with TOOL         build by the Containerfiles with docker, podman or buildah, instead of writing archives without any tool
 *   --build-arg A=B     for the Containerfiles; may be repeated. BUILDER=<image>: pack the programs in it, not here. BASE=<image>: stand on it;
 *                       both by digest, <image>@sha256:…
 *   --folder FOLDER     write the files of one program's image into FOLDER/base and FOLDER/program, for its Containerfile
 *   --on BASE           with --folder: what the program stands on; with anything but scratch FOLDER/base stays empty
 *
 * The archives are written by this program alone, from what is installed here; the same input gives the same digest (docs/images.md).
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { writeFolder } from "./archive/folder.ts";
import { pinned } from "./base-image.ts";
import { ImageBuilder } from "./build.ts";
import { PROGRAM_IMAGES, type ProgramImage } from "./programs.ts";
import { type Row, sizeTable } from "./size-table.ts";

const ROOT = join(import.meta.dirname, "..");
const TOOLS = ["docker", "podman", "buildah"];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    repository: { type: "string", default: "sallyport" },
    tag: { type: "string" },
    out: { type: "string", default: join(ROOT, "dist", "images") },
    with: { type: "string" },
    "build-arg": { type: "string", multiple: true, default: [] },
    folder: { type: "string" },
    on: { type: "string", default: "scratch" },
  },
});

const images = (positionals.length > 0 ? positionals : Object.keys(PROGRAM_IMAGES)).map(imageOf);
if (values.with !== undefined) await byContainerfiles(values.with, images);
else if (values.folder !== undefined) await intoFolder(values.folder, images, values.on);
else await asArchives(images);

async function asArchives(images: readonly ProgramImage[]): Promise<void> {
  const builder = new ImageBuilder({ madeAt: epoch(), cache: join(values.out, "layers") });
  mkdirSync(values.out, { recursive: true });
  const rows: Row[] = [];
  for (const image of images) {
    const built = await builder.build(image, values.repository, values.tag);
    const archive = join(values.out, `${image.program}.tar`);
    writeFileSync(archive, built.image.archive);
    rows.push({ ...built, archive, limit: image.limit });
  }
  process.stdout.write(sizeTable(rows));
  if (rows.some((row) => row.image.bytes > row.limit)) {
    process.stderr.write("an image is larger than its limit\n");
    process.exitCode = 1;
  }
}

async function intoFolder(folder: string, [image, ...more]: readonly ProgramImage[], on: string): Promise<void> {
  if (image === undefined || more.length > 0) throw new Error("--folder takes the files of one program: name it");
  const { base, program } = await new ImageBuilder().entriesOf(image);
  writeFolder(join(folder, "base"), on === "scratch" ? base : []);
  writeFolder(join(folder, "program"), program);
}

async function byContainerfiles(tool: string, images: readonly ProgramImage[]): Promise<void> {
  if (!TOOLS.includes(tool)) throw new Error(`--with takes one of ${TOOLS.join(", ")}, found ${tool}`);
  for (const argument of values["build-arg"]) {
    const [name = "", image = ""] = argument.split("=");
    if (name === "BUILDER" || name === "BASE") pinned(name, image);
  }
  const hasBuilder = values["build-arg"].some((arg) => arg.startsWith("BUILDER="));
  const on = values["build-arg"].findLast((arg) => arg.startsWith("BASE="))?.slice("BASE=".length) ?? "scratch";
  for (const image of images) {
    const { program } = image;
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
    const name = `${values.repository}/${program}:${values.tag ?? version}`;
    const args = [...values["build-arg"], `VERSION=${version}`].flatMap((arg) => ["--build-arg", arg]);
    if (!hasBuilder) {
      // Stands for the stage of that name.
      const stage = join(values.out, "stages", program);
      rmSync(stage, { recursive: true, force: true });
      await intoFolder(join(stage, "image"), [image], on);
      args.push("--build-context", `build=${stage}`);
    }
    const file = join(import.meta.dirname, program, "Containerfile");
    const { status, error } = spawnSync(tool, ["build", "-t", name, "-f", file, ...args, ROOT], { stdio: "inherit" });
    if (error !== undefined) throw new Error(`${tool} cannot be started: ${error.message}`);
    if (status !== 0) throw new Error(`${tool} could not build ${name} (exit code ${status})`);
  }
}

function imageOf(program: string): ProgramImage {
  const image = PROGRAM_IMAGES[program];
  if (image !== undefined) return image;
  throw new Error(`there is no program ${program}; there are ${Object.keys(PROGRAM_IMAGES).join(", ")}`);
}

/** When the images were made, as reproducible builds are told it. */
function epoch(): number {
  const text = process.env.SOURCE_DATE_EPOCH ?? "0";
  if (!/^\d{1,11}$/.test(text)) throw new Error(`SOURCE_DATE_EPOCH must be seconds since 1970, found ${text}`);
  return Number(text);
}
