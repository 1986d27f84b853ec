import { suite } from "../../scripts/vitest-defaults.ts";

export default suite(import.meta.dirname, {
  include: ["*.test.ts"],
  globalSetup: ["./setup.ts"],
  maxWorkers: 2,
  testTimeout: 1_200_000,
  hookTimeout: 1_200_000,
});
