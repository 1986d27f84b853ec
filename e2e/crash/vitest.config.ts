import { suite } from "../../scripts/vitest-defaults.ts";

/** Controllers and databases that are killed again and again: a suite of its own, as it takes a minute or two. */
export default suite(import.meta.dirname, {
  maxWorkers: 1,
  testTimeout: 480_000,
  hookTimeout: 240_000,
});
