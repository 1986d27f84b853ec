import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { unhandledErrors } from "../vitest-defaults.ts";
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

it("repeats nothing when a run had an error outside of its tests", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sallyport-second-try-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const report = join(folder, "mesh.json");
  const failed = { ...file("e2e/mesh/a.test.ts", 1), name: join(import.meta.dirname, "../../e2e/mesh/a.test.ts") };
  writeFileSync(report, JSON.stringify({ testResults: [failed] }));
  const printed = (): string =>
    execFileSync(process.execPath, [join(import.meta.dirname, "second-try.ts"), report], { encoding: "utf8" });
  const reporter = unhandledErrors(report);

  await reporter.onTestRunEnd?.([], [], "failed");
  expect(printed()).toBe("e2e/mesh/a.test.ts\n");
  await reporter.onTestRunEnd?.([], [{ message: "read ECONNRESET" }], "failed");
  expect(printed()).toBe("");
});
