/** What all suites of tests have in common, of a project and of a run. */
import { writeFileSync } from "node:fs";
import { defineConfig, type ViteUserConfig } from "vitest/config";
import type { InlineConfig, Reporter } from "vitest/node";

/**
 * Processes of their own. A poll may take longer than the second it has by default: it does not look once more when its time
 * is over, so a process that stood still for that long would fail with the answer in its socket.
 */
export const project = { pool: "forks", expect: { poll: { timeout: 20_000 } } } as const;

const report = process.env.SALLYPORT_REPORT;

/** Errors outside of any test fail a run, and the JSON report leaves them out: they go into `FILE.errors`. */
export const unhandledErrors = (file: string): Reporter => ({
  onTestRunEnd(_modules, errors) {
    if (errors.length === 0) return;
    writeFileSync(`${file}.errors`, errors.map(({ message }) => `${message}\n`).join(""));
  },
});

/** A run says what it did in a file, too, when it is asked to. */
export const run: InlineConfig = {
  reporters: report ? ["default", ["json", { outputFile: report }], unhandledErrors(report)] : ["default"],
};

/** The configuration of a suite that is one project: all tests below `folder`, to which the paths of its options are relative. */
export function suite(
  folder: string,
  options: InlineConfig & Required<Pick<InlineConfig, "testTimeout" | "hookTimeout">>,
): ViteUserConfig {
  return defineConfig({ test: { root: folder, include: ["**/*.test.ts"], ...project, ...run, ...options } });
}
