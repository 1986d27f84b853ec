import { defineConfig } from "vitest/config";
import { project, run } from "../../scripts/vitest-defaults.ts";

/** Logins in a real browser, which `setup.ts` finds or fetches: `make test-browser`. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["**/*.test.ts"],
    globalSetup: ["./setup.ts"],
    ...project,
    maxWorkers: 1,
    testTimeout: 60_000,
    hookTimeout: 180_000,
    ...run,
  },
});
