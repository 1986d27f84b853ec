import { defineConfig } from "vitest/config";

/** The suites that need the peer's program; `setup.ts` builds it or says loudly why they are skipped. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["**/*.test.ts"],
    globalSetup: ["./setup.ts"],
    pool: "forks",
    // Every file starts whole networks of processes: no more of them at a time than cores that every machine has.
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 180_000,
    reporters: process.env.SALLYPORT_REPORT
      ? ["default", ["json", { outputFile: process.env.SALLYPORT_REPORT }]]
      : ["default"],
  },
});
