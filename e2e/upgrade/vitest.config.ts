import { suite } from "../../scripts/vitest-defaults.ts";

/** Controllers of the last release beside those of the tree: a suite of its own, because it first makes the programs of that release. */
export default suite(import.meta.dirname, {
  maxWorkers: 1,
  testTimeout: 480_000,
  hookTimeout: 480_000,
});
