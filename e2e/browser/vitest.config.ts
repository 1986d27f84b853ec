import { suite } from "../../scripts/vitest-defaults.ts";

/** Logins in a real browser, which `setup.ts` finds or fetches: `make test-browser`. */
export default suite(import.meta.dirname, {
  globalSetup: ["./setup.ts"],
  maxWorkers: 1,
  testTimeout: 60_000,
  hookTimeout: 180_000,
});
