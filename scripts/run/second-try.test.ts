import { expect, it } from "vitest";
import type { Report } from "./closing-line.ts";
import { filesToRepeat } from "./second-try.ts";

const file = (name: string, failed: number, message?: string): Report["testResults"][number] => ({
  name: `/checkout/${name}`,
  status: failed > 0 || message !== undefined ? "failed" : "passed",
  ...(message !== undefined && { message }),
  assertionResults: [
    { fullName: "passes", status: "passed" },
    ...Array.from({ length: failed }, (_, i) => ({ fullName: `t${i}`, status: "failed" })),
  ],
});
const repeated = (...testResults: Report["testResults"]): string[] => filesToRepeat({ testResults }, "/checkout");

it("repeats the failed files of whole-system suites", () => {
  expect(
    repeated(file("e2e/mesh/a.test.ts", 1), file("e2e/mesh/b.test.ts", 0), file("e2e/system/c.test.ts", 2)),
  ).toEqual(["e2e/mesh/a.test.ts", "e2e/system/c.test.ts"]);
});

it("repeats a file whose hooks failed", () => {
  expect(repeated(file("e2e/mesh/a.test.ts", 0, "beforeAll failed"))).toEqual(["e2e/mesh/a.test.ts"]);
});

it.each([
  ["a unit test failed", [file("router/src/a.test.ts", 1)]],
  ["a property test failed", [file("e2e/system/a.property.test.ts", 1)]],
  ["a unit test failed beside a system test", [file("e2e/mesh/a.test.ts", 1), file("router/src/a.test.ts", 1)]],
  ["more than three tests failed", [file("e2e/mesh/a.test.ts", 2), file("e2e/mesh/b.test.ts", 2)]],
  ["nothing failed", [file("e2e/mesh/a.test.ts", 0)]],
])("repeats nothing when %s", (_, files) => {
  expect(repeated(...files)).toEqual([]);
});
