import { suite } from "../../scripts/vitest-defaults.ts";

export default suite(import.meta.dirname, {
  globalSetup: ["./setup.ts"],
  // A cluster is a dozen processes.
  maxWorkers: 1,
  testTimeout: 180_000,
  hookTimeout: 240_000,
});
