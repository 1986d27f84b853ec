import { defineConfig } from "vitest/config";

/** Suites in network namespaces; started by `run.ts`, without which (or without root) all of their tests are skipped. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["**/*.test.ts"],
    globalSetup: ["./setup.ts"],
    pool: "forks",
    // They share the namespaces of `run.ts`, and each starts programs.
    maxWorkers: 2,
    testTimeout: 180_000,
    hookTimeout: 300_000,
    reporters: process.env.SALLYPORT_REPORT
      ? ["default", ["json", { outputFile: process.env.SALLYPORT_REPORT }]]
      : ["default"],
  },
});
