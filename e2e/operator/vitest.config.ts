import { defineConfig } from "vitest/config";
import { project, run } from "../../scripts/vitest-defaults.ts";

/** Stories of the operator with real controllers, routers and operators as programs, on a fake API server: `make test-operator`. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["**/*.test.ts"],
    // One embedded PostgreSQL for the controllers that run in the processes of the tests.
    globalSetup: ["../../controller/src/store/testing/test-server.ts"],
    ...project,
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    ...run,
  },
});
