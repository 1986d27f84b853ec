import { defineConfig } from "vitest/config";
import { project, run } from "../../scripts/vitest-defaults.ts";

/** Controllers of the last release beside those of the tree: a suite of its own, because it first makes the programs of that release. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["**/*.test.ts"],
    ...project,
    maxWorkers: 1,
    testTimeout: 480_000,
    hookTimeout: 480_000,
    ...run,
  },
});
