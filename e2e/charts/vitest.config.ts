import { writeFileSync } from "node:fs";
import { defineConfig } from "vitest/config";
import { project, run } from "../../scripts/vitest-defaults.ts";
import { NoToolError, toolPath } from "./helm.ts";

/** Why the charts cannot be tested here, said loudly, also in a whole run. */
function obstacle(): string | undefined {
  try {
    toolPath("helm");
    toolPath("kubeconform");
    return undefined;
  } catch (error) {
    if (!(error instanceof NoToolError)) throw error;
    console.warn(`\n*** THE SUITES OF THE CHARTS ARE SKIPPED: ${error.message}\n`);
    const report = process.env.SALLYPORT_REPORT;
    if (report) writeFileSync(`${report}.skipped`, error.message);
    return error.message;
  }
}

export default defineConfig({
  test: {
    include: obstacle() === undefined ? ["e2e/charts/**/*.test.ts"] : [],
    passWithNoTests: true,
    globalSetup: ["e2e/cluster/setup.ts"],
    ...project,
    // A cluster is a dozen processes.
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 240_000,
    ...run,
  },
});
