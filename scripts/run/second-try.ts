/**
 * Which test files of a step may run once more: `node scripts/run/second-try.ts REPORT` prints their paths, relative to the
 * repository, one per line, and nothing when there are none.
 *
 * A whole file runs again, because its tests share what its hooks started. Only whole-system suites get a second try. A
 * unit or property test that fails once has found a defect, whatever it does the next time.
 */
import { existsSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Report } from "./closing-line.ts";

const ROOT = join(import.meta.dirname, "..", "..");
/** Of tests in one run, over all of its steps. With more, the run fails although each of them passed in the end. */
export const MAX_SECOND_TRIES = 3;

type TestFile = Report["testResults"][number];

/** Tests of a file that failed, and at least one when a hook or the file itself did. */
export function failures(file: TestFile): number {
  if (file.status !== "failed") return 0;
  return Math.max(1, file.assertionResults.filter(({ status }) => status === "failed").length);
}

/** Whether every test that failed at first, and at least one, has passed on the second try. A skipped test has not. */
export function passesAgain(file: TestFile, again: TestFile | undefined): boolean {
  if (again?.status !== "passed") return false;
  const passed = new Set(
    again.assertionResults.filter(({ status }) => status === "passed").map((test) => test.fullName),
  );
  const failed = file.assertionResults.filter(({ status }) => status === "failed");
  return passed.size > 0 && failed.every(({ fullName }) => passed.has(fullName));
}

/** Paths relative to the repository; empty when a failed file is no whole-system suite, or when too many tests failed. */
export function filesToRepeat(report: Report, root = ROOT): string[] {
  const failed = report.testResults.filter((file) => failures(file) > 0);
  const paths = failed.map(({ name }) => relative(root, name));
  const isSystemSuite = (path: string): boolean => path.startsWith("e2e/") && !path.endsWith(".property.test.ts");
  if (!paths.every(isSystemSuite)) return [];
  return failed.reduce((sum, file) => sum + failures(file), 0) > MAX_SECOND_TRIES ? [] : paths;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [path = ""] = process.argv.slice(2);
  // An error outside of any test is in no file's result, so no second try can show that it is gone.
  const isRepeatable = existsSync(path) && !existsSync(`${path}.errors`);
  const report = isRepeatable ? (JSON.parse(readFileSync(path, "utf8")) as Report) : { testResults: [] };
  for (const file of filesToRepeat(report)) console.log(file);
}
