import { suite } from "../../scripts/vitest-defaults.ts";

/** Containers of our images, started without a tool for containers: `make test-images`. */
export default suite(import.meta.dirname, {
  globalSetup: ["./setup.ts"],
  maxWorkers: 2,
  testTimeout: 180_000,
  hookTimeout: 180_000,
});
