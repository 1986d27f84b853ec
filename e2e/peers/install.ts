import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const SCRIPT = join(import.meta.dirname, "..", "..", "scripts", "install-tools.sh");

/** Builds tools (or finds them in the cache) and hands their paths to the suites in these variables; says loudly which suites are skipped without them. */
export function install(suites: string, variables: Readonly<Record<string, string>>): void {
  for (const [tool, variable] of Object.entries(variables)) {
    const build = spawnSync(SCRIPT, [tool], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 1_200_000,
    });
    if (build.status === 0) process.env[variable] = build.stdout.trim();
    else if (build.status === 3) sayWhy(suites, build.stderr.trim());
    else throw new Error(`installing ${tool} failed (exit code ${build.status}):\n${build.stderr}`);
  }
}

/** Loudly here, and beside the report for the closing line of a whole run. */
function sayWhy(suites: string, reason: string): void {
  console.warn(`\n*** SKIPPED: ${suites}: ${reason}\n`);
  const report = process.env.SALLYPORT_REPORT;
  if (report) writeFileSync(`${report}.skipped`, reason.split("\n").at(-1) ?? reason);
}
