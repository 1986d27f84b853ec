/** Two releases that a user upgrades between: images to be loaded, and the operator's chart as it is packed. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tarball } from "@sallyport/program/archive/tarball";
import { chartEntries } from "../../../scripts/release/charts.ts";
import { programArchives } from "../../images/program-archives.ts";
import { makeRelease } from "../../release/make-release.ts";
import { ROOT, VERSION } from "../root.ts";

export interface Release {
  readonly version: string;
  /** Archives of images. */
  readonly images: readonly string[];
  /** File of the chart `sallyport`. */
  readonly chart: string;
}

/** Lower than every version that was released. */
const BEFORE_ALL = "0.0.1";
const TAG = /^v(\d+\.\d+\.\d+)$/;

/** The repository as it is, under its version. */
export async function newRelease(folder: string): Promise<Release> {
  return await ofTree(folder, VERSION);
}

/** The newest release that has a tag; where there is none, the repository as it is, under a lower version, which is said aloud. */
export async function previousRelease(folder: string): Promise<Release> {
  const tags = execFileSync("git", ["tag", "--sort=-version:refname", "--merged"], { cwd: ROOT, encoding: "utf8" });
  const tag = tags.split("\n").find((each) => TAG.test(each) && each !== `v${VERSION}`);
  const version = TAG.exec(tag ?? "")?.[1];
  if (tag === undefined || version === undefined) {
    console.warn(
      `\n*** NOTHING WAS RELEASED BEFORE (no tag v*): the upgrade is from this tree as ${BEFORE_ALL} to ${VERSION}.\n`,
    );
    return await ofTree(folder, BEFORE_ALL);
  }
  const made = makeRelease(version, tag, "own");
  const images = readdirSync(join(made.folder, "images")).map((name) => join(made.folder, "images", name));
  return { version, images, chart: join(made.folder, `charts/sallyport-${version}.tgz`) };
}

async function ofTree(folder: string, version: string): Promise<Release> {
  mkdirSync(folder, { recursive: true });
  const images = await programArchives(folder, undefined, version);
  const chart = join(folder, `sallyport-${version}.tgz`);
  writeFileSync(chart, tarball(chartEntries(join(ROOT, "helm/sallyport"), VERSION, version), 0));
  return { version, images, chart };
}
