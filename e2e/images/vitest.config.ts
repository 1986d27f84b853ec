import { defineConfig } from "vitest/config";
import { project, run } from "../../scripts/vitest-defaults.ts";

/** Containers of our images, started without a tool for containers: `make test-images`. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["**/*.test.ts"],
    globalSetup: ["./setup.ts"],
    ...project,
    maxWorkers: 2,
    testTimeout: 180_000,
    hookTimeout: 180_000,
    ...run,
  },
});
