import { defineConfig } from "vitest/config";
import { project, run } from "../../scripts/vitest-defaults.ts";

/** A network under random faults for minutes: `make soak` (MINUTES=10), inside namespaces of its own. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["**/*.test.ts"],
    globalSetup: ["../namespaces/setup.ts"],
    ...project,
    maxWorkers: 1,
    testTimeout: 3_600_000,
    hookTimeout: 900_000,
    ...run,
  },
});
