import { suite } from "../../scripts/vitest-defaults.ts";

/** Stories of the operator with real controllers, routers and operators as programs, on a fake API server: `make test-operator`. */
export default suite(import.meta.dirname, {
  // One embedded PostgreSQL for the controllers that run in the processes of the tests.
  globalSetup: ["../../controller/src/store/testing/test-server.ts"],
  maxWorkers: 2,
  testTimeout: 120_000,
  hookTimeout: 120_000,
});
