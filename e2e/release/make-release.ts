import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT } from "../scenarios/root.ts";

/** Compressed once for all: what they are called tells what they hold. */
const LAYERS = join(ROOT, "dist", "images", "layers");

export interface MadeRelease {
  readonly folder: string;
  remove(): void;
}

/**
 * Makes a release, as a user who has cloned the repository into a new folder.
 *
 * @param revision a commit or a tag
 * @param key secret key of minisign that signs it
 * @param modules `here`: the npm packages that are installed here, where the commit is of now; `own`: those that it asks for
 */
export function makeRelease(version: string, revision: string, modules: "here" | "own", key?: string): MadeRelease {
  const scratch = mkdtempSync(join(tmpdir(), "sallyport-release-"));
  const remove = () => rmSync(scratch, { recursive: true, force: true });
  try {
    const clone = join(scratch, "clone");
    cloneAt(clone, revision, modules);
    const folder = join(scratch, "release");
    const node = join(clone, "node_modules/.bin/node");
    const args = [join(clone, "scripts/release/main.ts"), "--version", version, "--out", folder, "--layers", LAYERS];
    if (key !== undefined) args.push("--key", key);
    mkdirSync(LAYERS, { recursive: true });
    const { status, stdout, stderr, error } = spawnSync(node, args, { encoding: "utf8" });
    if (error !== undefined) throw error;
    if (status !== 0) throw new Error(`the release could not be made:\n${stdout}${stderr}`);
    console.log(stdout.trimEnd());
    rmSync(clone, { recursive: true, force: true });
    return { folder, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

/** Clones the repository into a new folder, with the packages of npm. */
export function cloneAt(clone: string, revision: string, modules: "here" | "own"): void {
  execFileSync("git", ["clone", "--quiet", "--shared", ROOT, clone]);
  execFileSync("git", ["checkout", "--quiet", revision], { cwd: clone });
  if (modules === "here") takeModules(clone);
  else execFileSync("npm", ["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"], { cwd: clone });
}

/** The packages of npm that are installed here, by further names of their files where the file system can. */
function takeModules(clone: string): void {
  const [from, to] = [join(ROOT, "node_modules"), join(clone, "node_modules")];
  if (spawnSync("cp", ["-al", from, to]).status === 0) return;
  rmSync(to, { recursive: true, force: true });
  cpSync(from, to, { recursive: true, verbatimSymlinks: true });
}
