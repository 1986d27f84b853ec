import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { announceSkip } from "../../scripts/run/skipped.ts";
import { cloneAt } from "../release/make-release.ts";
import { ROOT } from "../scenarios/root.ts";

/** The release before the tree: docs/releases.md, "To cut one". */
export interface LastRelease {
  readonly version: string;
  readonly commit: string;
}

const NAMED = join(import.meta.dirname, "..", "release", "last-release.json");
const MADE = join(ROOT, "dist", "last-release");

/** Undefined, with a message, where the clone does not have its commit. */
export function lastRelease(): LastRelease | undefined {
  const release = JSON.parse(readFileSync(NAMED, "utf8")) as LastRelease;
  if (git("cat-file", "-e", `${release.commit}^{commit}`) === 0) return release;
  announceSkip(
    "THE SUITE OF UPGRADES",
    `this clone does not have the commit of version ${release.version} (${release.commit}): fetch the whole history`,
  );
  return undefined;
}

/**
 * The file that a program of the release is started from: as `make release` packs it for npm and for images, from the release's own commit. It is made once,
 * and kept in `dist/last-release`.
 */
export function releasedProgram({ version, commit }: LastRelease, program: "controller" | "router"): string {
  const folder = join(MADE, commit);
  if (!existsSync(folder)) make(commit, folder);
  const file = join(folder, program, "lib", "main.js");
  const said = execFileSync(process.execPath, [file, "--version"], { encoding: "utf8" });
  if (!said.includes(` ${version} `)) throw new Error(`expected version ${version} from ${file}, found ${said.trim()}`);
  return file;
}

function make(commit: string, folder: string): void {
  const work = `${folder}.${process.pid}`;
  const clone = join(work, "clone");
  try {
    mkdirSync(work, { recursive: true });
    // What it needs of npm is what the tree needs, unless the lock file is another one.
    const isSame = git("diff", "--quiet", commit, "--", "package-lock.json") === 0;
    cloneAt(clone, commit, isSame ? "here" : "own");
    const node = join(clone, "node_modules", ".bin", "node");
    execFileSync(node, ["scripts/pack.ts", "controller", "router"], { cwd: clone, stdio: "pipe" });
    // Native modules are found in the tree's own `node_modules` above it.
    cpSync(join(clone, "dist"), join(work, "made"), { recursive: true });
    renameSync(join(work, "made"), folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Its exit code. */
function git(...args: string[]): number | null {
  return spawnSync("git", args, { cwd: ROOT }).status;
}
