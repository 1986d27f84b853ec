import { spawnSync } from "node:child_process";
import { join } from "node:path";

/** Builds the peer's program (or finds it in the cache) and hands its path to the suites; without it they are skipped. */
export function setup(): void {
  const script = join(import.meta.dirname, "..", "..", "scripts", "install-tools.sh");
  const build = spawnSync(script, ["ziti"], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 1_200_000,
  });
  if (build.status === 0) {
    process.env.SALLYPORT_PEER = build.stdout.trim();
    return;
  }
  if (build.status !== 3) throw new Error(`installing the peer failed (exit code ${build.status}):\n${build.stderr}`);
  console.warn(`\n*** THE PEER SUITES ARE SKIPPED: ${build.stderr.trim()}\n`);
}
