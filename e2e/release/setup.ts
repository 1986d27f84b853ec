import { spawnSync } from "node:child_process";
import { announceSkip } from "../../scripts/run/skipped.ts";
import { ROOT } from "../scenarios/root.ts";
import { makeRelease } from "./make-release.ts";
import { hasRelease, offer, VERSION } from "./offered.ts";

/** Makes the release of the last commit before the first suite, in a folder of its own; without git all suites are skipped with a message. */
export function setup(): (() => void) | undefined {
  // One that is there already, of the version for tests.
  if (hasRelease) return undefined;
  const { status, stdout } = spawnSync("git", ["status", "--porcelain"], { cwd: ROOT, encoding: "utf8" });
  if (status !== 0) return skip("the tree is not a clone of git, and a release is made of a commit");
  if (stdout !== "")
    console.warn("\n*** The tree has changes: what is tested here is the release of its last commit.\n");
  const made = makeRelease(VERSION, "HEAD", "here");
  offer(made.folder);
  return () => made.remove();
}

function skip(why: string): undefined {
  announceSkip("THE SUITES OF THE RELEASE", why);
  return undefined;
}
