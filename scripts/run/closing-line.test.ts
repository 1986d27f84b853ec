import { expect, it } from "vitest";
import { durations, type Report, total } from "./closing-line.ts";

const report = (...statuses: string[]): Report => ({
  testResults: [
    {
      name: "a.test.ts",
      status: statuses.includes("failed") ? "failed" : "passed",
      assertionResults: statuses.map((status, i) => ({ fullName: `t${i}`, status })),
    },
  ],
});

it("adds up tests and plain steps", () => {
  const sum = total([
    { name: "check", exitCode: 0, seconds: 1 },
    { name: "test", exitCode: 0, seconds: 1, report: report("passed", "passed", "pending", "skipped") },
  ]);
  expect(sum).toMatchObject({ passed: 3, failed: 0, skipped: 2 });
  expect(sum.lines).toEqual(["SKIPPED test: t2", "SKIPPED test: t3"]);
});

it("counts a step that ends badly without a failed test", () => {
  expect(total([{ name: "check", exitCode: 2, seconds: 1 }])).toMatchObject({ passed: 0, failed: 1 });
  expect(total([{ name: "test", exitCode: 1, seconds: 1, report: report("passed") }])).toMatchObject({
    passed: 1,
    failed: 1,
  });
});

it("counts a failed test once, and a file that could not be loaded", () => {
  const broken: Report = {
    testResults: [{ name: "b.test.ts", status: "failed", message: "no such module", assertionResults: [] }],
  };
  expect(total([{ name: "test", exitCode: 1, seconds: 1, report: report("failed") }])).toMatchObject({ failed: 1 });
  expect(total([{ name: "test", exitCode: 1, seconds: 1, report: broken }])).toMatchObject({
    failed: 1,
    lines: ["FAILED test: b.test.ts did not run", "    no such module"],
  });
});

it("shows a failure's words and its place, not its whole stack", () => {
  const words = Array.from({ length: 20 }, (_, i) => `line ${i}`);
  const message = [
    "\u001b[31mError: 1 of 2 bytes came back\u001b[39m",
    ...words,
    "    at run (/x/node_modules/runner/run.js:1:2)",
    "    at node:internal/process/task_queues:103:5",
    "    at exchange (/x/e2e/network/bytes.ts:51:41)",
    "    at /x/e2e/peers/sdk.test.ts:1:2",
  ].join("\n");
  const failed = report("failed");
  const [file] = failed.testResults as [Report["testResults"][number]];
  const assertionResults = [{ fullName: "t", status: "failed", failureMessages: [message] }];
  const { lines } = total([
    { name: "peers", exitCode: 1, seconds: 1, report: { testResults: [{ ...file, assertionResults }] } },
  ]);
  expect(lines[0]).toBe("FAILED peers: t");
  expect(lines[1]?.split("\n")).toEqual([
    "    Error: 1 of 2 bytes came back",
    ...words.slice(0, 11).map((line) => `    ${line}`),
    "    … 9 more lines",
    "    at exchange (/x/e2e/network/bytes.ts:51:41)",
  ]);
});

it("says why a test was skipped, where its suite knows", () => {
  const sum = total([
    { name: "peers", exitCode: 0, seconds: 1, report: report("skipped"), skipReason: "there is no Go" },
  ]);
  expect(sum.lines).toEqual(["SKIPPED peers: t0 (there is no Go)"]);
});

it("tells what took the time, the longest first", () => {
  const step = (name: string, seconds: number) => ({ name, seconds, exitCode: 0 });
  expect(durations([step("check", 83), step("test", 384), step("demo", 13)])).toBe("test 384 s, check 83 s, demo 13 s");
});

it("does not fail for a test that passes on its second try, and names it", () => {
  const sum = total([
    {
      name: "mesh",
      exitCode: 0,
      seconds: 1,
      report: report("failed", "passed"),
      secondReport: report("passed", "passed"),
    },
  ]);
  expect(sum).toMatchObject({ passed: 2, failed: 0, skipped: 0 });
  expect(sum.lines).toEqual(["SECOND TRY mesh: t0", "1 passed on the second try; a run may have 3 such tests"]);
});

it("fails when the second try fails, and counts each test once", () => {
  const sum = total([
    {
      name: "mesh",
      exitCode: 1,
      seconds: 1,
      report: report("failed", "passed"),
      secondReport: report("failed", "passed"),
    },
  ]);
  expect(sum).toMatchObject({ passed: 1, failed: 1 });
  expect(sum.lines).toEqual(["FAILED mesh: t0"]);
});

it("does not take a skipped test for one that passed on its second try", () => {
  const first = report("failed", "passed");
  const step = (secondReport: Report) =>
    total([{ name: "mesh", exitCode: 0, seconds: 1, report: first, secondReport }]);
  expect(step(report("skipped", "passed"))).toMatchObject({ failed: 1, lines: ["FAILED mesh: t0"] });
  const didNotRun = { testResults: [{ name: "a.test.ts", status: "passed", assertionResults: [] }] };
  expect(step(didNotRun)).toMatchObject({ failed: 1 });
});

it("fails when more than three tests of one run needed a second try", () => {
  const step = (name: string) => ({
    name,
    exitCode: 0,
    seconds: 1,
    report: report("failed", "failed"),
    secondReport: report("passed", "passed"),
  });
  expect(total([step("mesh")]).failed).toBe(0);
  const sum = total([step("mesh"), step("peers")]);
  expect(sum).toMatchObject({ passed: 4, failed: 4 });
  expect(sum.lines.at(-1)).toBe("4 passed on the second try; a run may have 3 such tests");
});
