import { suite } from "../../scripts/vitest-defaults.ts";

/** Suites in network namespaces; started by `run.ts`, without which (or without root) all of their tests are skipped. */
export default suite(import.meta.dirname, {
  globalSetup: ["./setup.ts"],
  // They share the namespaces of `run.ts`, and each starts programs.
  maxWorkers: 2,
  testTimeout: 180_000,
  hookTimeout: 300_000,
});
