import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { announceSkip } from "../../scripts/run/skipped.ts";
import { ROOT } from "../scenarios/root.ts";
import { makeRelease } from "./make-release.ts";
import { hasRelease, offer, offerKey, VERSION } from "./offered.ts";
import { toolOf } from "./tool-of.ts";

/** Makes the release of the last commit before the first suite, in a folder of its own; without git all suites are skipped with a message. */
export function setup(): (() => void) | undefined {
  // One that is there already, of the version for tests.
  if (hasRelease) return undefined;
  const { status, stdout } = spawnSync("git", ["status", "--porcelain"], { cwd: ROOT, encoding: "utf8" });
  if (status !== 0) return skip("the tree is not a clone of git, and a release is made of a commit");
  if (stdout !== "")
    console.warn("\n*** The tree has changes: what is tested here is the release of its last commit.\n");
  const keys = mkdtempSync(join(tmpdir(), "sallyport-keys-"));
  const minisign = toolOf("minisign");
  const [secret, open] = [join(keys, "release.key"), join(keys, "release.pub")];
  if (minisign !== undefined) {
    execFileSync(minisign, ["-G", "-W", "-s", secret, "-p", open]);
    offerKey(open);
  }
  const made = makeRelease(VERSION, "HEAD", "here", minisign === undefined ? undefined : secret);
  offer(made.folder);
  return () => {
    made.remove();
    rmSync(keys, { recursive: true, force: true });
  };
}

function skip(why: string): undefined {
  announceSkip("THE SUITES OF THE RELEASE", why);
  return undefined;
}
