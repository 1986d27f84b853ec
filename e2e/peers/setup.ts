import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { announceSkip } from "../../scripts/run/skipped.ts";

const SCRIPT = join(import.meta.dirname, "..", "..", "scripts", "install-tools.sh");

/** Builds OpenZiti's programs (or finds them in the cache) and hands their paths to the suites; without them those are skipped. */
export function setup(): void {
  for (const [tool, variable] of [
    ["ziti", "SALLYPORT_PEER"],
    ["ziti-unversioned", "SALLYPORT_PEER_UNVERSIONED"],
    ["posture-client", "SALLYPORT_PEER_POSTURE_CLIENT"],
    ["link-relay", "SALLYPORT_PEER_LINK_RELAY"],
  ] as const) {
    const build = spawnSync(SCRIPT, [tool], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 1_200_000,
    });
    if (build.status === 0) process.env[variable] = build.stdout.trim();
    else if (build.status === 3) skip(build.stderr.trim());
    else throw new Error(`installing ${tool} failed (exit code ${build.status}):\n${build.stderr}`);
  }
}

const skip = (reason: string): void => announceSkip("THE PEER SUITES", reason, reason.split("\n").at(-1));
