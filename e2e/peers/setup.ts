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
  findGeneration2();
}

/** A program of OpenZiti 2.x cannot be built from its module: `OPENZITI2` names one. */
function findGeneration2(): void {
  delete process.env.SALLYPORT_PEER_GENERATION_2;
  const { OPENZITI2: path = "" } = process.env;
  if (path === "") {
    // Not in the report: other tests of the run are skipped for other reasons.
    announceSkip("THE SUITES WITH OPENZITI 2.x", "OPENZITI2 is not set to the path of its program `ziti`", "");
    return;
  }
  const { stdout, error } = spawnSync(path, ["version"], { encoding: "utf8", timeout: 60_000 });
  const version = stdout?.trim() ?? "";
  if (!/^v2\.\d+\.\d+/.test(version)) {
    const answer = error?.message ?? `its answer to \`version\` was ${JSON.stringify(version)}`;
    throw new Error(`OPENZITI2=${path} is no program of OpenZiti 2.x: ${answer}`);
  }
  process.env.SALLYPORT_PEER_GENERATION_2 = JSON.stringify({ path, version });
}

const skip = (reason: string): void => announceSkip("THE PEER SUITES", reason, reason.split("\n").at(-1));
