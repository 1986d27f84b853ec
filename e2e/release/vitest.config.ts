import { defineConfig } from "vitest/config";
import { project, run } from "../../scripts/vitest-defaults.ts";

export default defineConfig({
  test: {
    include: ["e2e/release/*.test.ts"],
    globalSetup: ["e2e/release/setup.ts"],
    ...project,
    maxWorkers: 2,
    testTimeout: 1_200_000,
    hookTimeout: 1_200_000,
    ...run,
  },
});
