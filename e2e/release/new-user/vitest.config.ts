import { defineConfig } from "vitest/config";
import { project, run } from "../../../scripts/vitest-defaults.ts";

export default defineConfig({
  test: {
    include: ["e2e/release/new-user/*.test.ts"],
    globalSetup: ["e2e/namespaces/setup.ts"],
    ...project,
    testTimeout: 300_000,
    hookTimeout: 60_000,
    ...run,
  },
});
