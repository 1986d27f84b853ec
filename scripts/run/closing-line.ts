/**
 * Adds up the steps of a whole run (see `steps.sh`) and prints every failure, every second try, the reason of every skip,
 * and the closing line: `N passed, N failed, N skipped`. Exits with 1 when anything failed.
 *
 * A step is a file `NAME.exit` (its exit code, and the seconds that it took) and, where it ran tests, `NAME.json` (the
 * report of the test runner). `NAME.second.json` is the report of the files that ran once more. A suite that cannot run on
 * this machine leaves the reason in `NAME.json.skipped`.
 * A step without a report counts as one check. A step that exits with an error although no test failed counts as one failure.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { failures, MAX_SECOND_TRIES, passesAgain } from "./second-try.ts";

/** Of a failure that is shown at the end. */
const EXCERPT_LINES = 12;
const EXCERPT_COLUMNS = 300;

interface AssertionResult {
  readonly fullName: string;
  readonly status: string;
  /** With their stacks. */
  readonly failureMessages?: readonly string[];
}
export interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    /** Why it could not be loaded. */
    readonly message?: string;
    readonly assertionResults: readonly AssertionResult[];
  }[];
}
type TestFile = Report["testResults"][number];
export interface Step {
  readonly name: string;
  readonly exitCode: number;
  readonly seconds: number;
  readonly report?: Report;
  /** Of the files that ran once more, because a test of them failed. */
  readonly secondReport?: Report;
  /** Why tests of this step could not run here. */
  readonly skipReason?: string;
}
export interface Total {
  passed: number;
  failed: number;
  skipped: number;
  readonly lines: string[];
}

/** Counts every test of every step; a test that did not run is skipped, whatever its runner calls it. */
export function total(steps: readonly Step[]): Total {
  const sum: Total = { passed: 0, failed: 0, skipped: 0, lines: [] };
  let secondTries = 0;
  for (const step of steps) {
    const before = sum.failed;
    for (const file of step.report?.testResults ?? []) {
      const again = step.secondReport?.testResults.find(({ name }) => name === file.name);
      const passing = passesAgain(file, again) ? again : undefined;
      if (passing !== undefined) {
        secondTries += failures(file);
        sum.lines.push(...failuresOf(file, `SECOND TRY ${step.name}`));
      } else sum.lines.push(...failuresOf(file, `FAILED ${step.name}`));
      addTests(sum, passing ?? file, step);
    }
    if (step.report === undefined && step.exitCode === 0) sum.passed += 1;
    else if (step.exitCode !== 0 && sum.failed === before) {
      sum.failed += 1;
      sum.lines.push(`FAILED ${step.name}: ended with exit code ${step.exitCode}`);
    }
  }
  if (secondTries > 0)
    sum.lines.push(`${secondTries} passed on the second try; a run may have ${MAX_SECOND_TRIES} such tests`);
  if (secondTries > MAX_SECOND_TRIES) sum.failed += secondTries;
  return sum;
}

/** A line for each failed test, or one for a file whose hooks failed or that could not be loaded. */
function failuresOf(file: TestFile, label: string): string[] {
  const failed = file.assertionResults.filter(({ status }) => status === "failed");
  if (failures(file) > failed.length)
    return [`${label}: ${file.name} did not run`, ...(file.message ? [excerpt(file.message)] : [])];
  return failed.flatMap((test) => [`${label}: ${test.fullName}`, ...(test.failureMessages ?? []).map(excerpt)]);
}

function addTests(sum: Total, file: TestFile, step: Step): void {
  sum.failed += failures(file);
  for (const { status, fullName } of file.assertionResults) {
    if (status === "passed") sum.passed += 1;
    else if (status !== "failed") {
      sum.skipped += 1;
      sum.lines.push(`SKIPPED ${step.name}: ${fullName}${step.skipReason ? ` (${step.skipReason})` : ""}`);
    }
  }
}

/** A failure's words, and the place in our files: enough to go on when nothing else of a long run was kept. */
function excerpt(message: string): string {
  const lines = stripVTControlCharacters(message).split("\n");
  const isFrame = (line: string): boolean => /^\s+at /.test(line);
  const words = lines.filter((line) => line.trim() !== "" && !isFrame(line));
  const place = lines.find((line) => isFrame(line) && !line.includes("node_modules") && !line.includes("node:"));
  const kept = words.slice(0, EXCERPT_LINES).map((line) => line.slice(0, EXCERPT_COLUMNS));
  if (words.length > kept.length) kept.push(`… ${words.length - kept.length} more lines`);
  return [...kept, ...(place === undefined ? [] : [place.trim()])].map((line) => `    ${line}`).join("\n");
}

/** What took the time, the longest first. */
export const durations = (steps: readonly Step[]): string =>
  steps
    .toSorted((a, b) => b.seconds - a.seconds)
    .map(({ name, seconds }) => `${name} ${seconds} s`)
    .join(", ");

function readStep(folder: string, name: string): Step {
  const report = join(folder, `${name}.json`);
  const second = join(folder, `${name}.second.json`);
  const [exitCode, seconds] = readFileSync(join(folder, `${name}.exit`), "utf8")
    .split(" ")
    .map(Number);
  if (exitCode === undefined || seconds === undefined) throw new Error(`${name}.exit is not whole`);
  return {
    name,
    exitCode,
    seconds,
    ...(existsSync(report) && { report: JSON.parse(readFileSync(report, "utf8")) as Report }),
    ...(existsSync(second) && { secondReport: JSON.parse(readFileSync(second, "utf8")) as Report }),
    ...(existsSync(`${report}.skipped`) && { skipReason: readFileSync(`${report}.skipped`, "utf8").trim() }),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder = ".", ...names] = process.argv.slice(2);
  const steps = names.map((name) => readStep(folder, name));
  const sum = total(steps);
  for (const line of sum.lines) console.log(line);
  console.log(`took ${durations(steps)}`);
  console.log(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`);
  process.exitCode = sum.failed === 0 ? 0 : 1;
}
