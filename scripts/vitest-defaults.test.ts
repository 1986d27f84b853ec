import { expect, test } from "vitest";
import { project, run, suite } from "./vitest-defaults.ts";

test("a suite has all tests below its folder, what all suites have, and its own options", () => {
  const own = { maxWorkers: 1, testTimeout: 2, hookTimeout: 3 };
  const common = { root: "/suite", ...project, ...run };
  expect(suite("/suite", own)).toEqual({ test: { ...common, include: ["**/*.test.ts"], ...own } });
  expect(suite("/suite", { ...own, include: ["*.test.ts"] }).test?.include).toEqual(["*.test.ts"]);
});
