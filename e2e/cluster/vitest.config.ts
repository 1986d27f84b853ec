import { defineConfig } from "vitest/config";
import { project, run } from "../../scripts/vitest-defaults.ts";

export default defineConfig({
  test: {
    include: ["e2e/cluster/**/*.test.ts"],
    globalSetup: ["e2e/cluster/setup.ts"],
    ...project,
    // A cluster is a dozen processes.
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 240_000,
    ...run,
  },
});
