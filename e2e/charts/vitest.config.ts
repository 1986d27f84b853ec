import { defineConfig } from "vitest/config";
import { announceSkip } from "../../scripts/run/skipped.ts";
import { project, run } from "../../scripts/vitest-defaults.ts";
import { NoToolError, toolPath } from "./helm.ts";

/** Why the charts cannot be tested here; a whole run says it, too. */
function obstacle(): string | undefined {
  try {
    toolPath("helm");
    toolPath("kubeconform");
    return undefined;
  } catch (error) {
    if (!(error instanceof NoToolError)) throw error;
    announceSkip("THE SUITES OF THE CHARTS", error.message);
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
