import { suite } from "../../../scripts/vitest-defaults.ts";

export default suite(import.meta.dirname, {
  globalSetup: ["../../namespaces/setup.ts"],
  testTimeout: 300_000,
  hookTimeout: 60_000,
});
