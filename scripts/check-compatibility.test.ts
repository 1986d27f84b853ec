import { expect, it } from "vitest";
import { checkCompatibility } from "./check-compatibility.ts";

const there = (path: string) =>
  ["e2e/peers/tunnel.test.ts", "e2e/peers/cli/commands", "controller/src/oidc/recorded.test.ts"].includes(path);
const page = (cell: string, more = "") =>
  `# Compatibility\n| program | version | dial |\n|---|---|---|\n| CLI | 1.6 | ${cell} |\n\n${more}`;
const problemsOf = (cell: string, more?: string) => checkCompatibility(page(cell, more), there).problems;

it("takes suites that exist, words for what no test runs, and a no with its reason", () => {
  expect(problemsOf("`tunnel` · `commands/*` · `controller/src/oidc/recorded`")).toEqual([]);
  expect(problemsOf("by hand · read")).toEqual([]);
  expect(problemsOf("–")).toEqual([]);
  expect(problemsOf("no (a)", "- (a) The CLI does not dial.\n")).toEqual([]);
});

it("reports a suite that is gone, a cell in another form, a no without a reason, and a reason without a no", () => {
  expect(problemsOf("`gone`")).toEqual(["CLI 1.6, dial: there is no suite gone"]);
  expect(problemsOf("yes")).toEqual([expect.stringContaining('got "yes"')]);
  expect(problemsOf("no")).toEqual([expect.stringContaining('got "no"')]);
  expect(problemsOf("no (a)")).toEqual([expect.stringContaining("no (a): there is no sentence")]);
  expect(problemsOf("`tunnel`", "- (b) Once it was so.\n")).toEqual(["(b): no cell needs this reason"]);
});

it("looks at the suites of later tables, too", () => {
  const later = "| what | state | suite |\n|---|---|---|\n| links | `v1` | `tunnel`, `gone` |\n";
  expect(problemsOf("–", later)).toEqual(["links: there is no suite gone"]);
});
