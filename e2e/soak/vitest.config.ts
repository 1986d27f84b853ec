import { suite } from "../../scripts/vitest-defaults.ts";

/** A network under random faults for minutes: `make soak` (MINUTES=10), inside namespaces of its own. */
export default suite(import.meta.dirname, {
  globalSetup: ["../namespaces/setup.ts"],
  maxWorkers: 1,
  testTimeout: 3_600_000,
  hookTimeout: 900_000,
});
