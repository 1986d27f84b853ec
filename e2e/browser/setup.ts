import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { announceSkip } from "../../scripts/run/skipped.ts";

const SCRIPT = join(import.meta.dirname, "..", "..", "scripts", "install-tools.sh");

/** Finds Chromium, or fetches it into the cache, and hands its path to the suites; without it those are skipped. */
export function setup(): void {
  const { status, stdout, stderr } = spawnSync(SCRIPT, ["chromium"], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 600_000,
  });
  if (status === 0) process.env.SALLYPORT_CHROMIUM = stdout.trim();
  else if (status === 3) announceSkip("THE SUITES IN A BROWSER", stderr.trim(), stderr.trim().split("\n").at(-1));
  else throw new Error(`installing chromium failed (exit code ${status}):\n${stderr}`);
}
