import { defineConfig } from "vitest/config";

/** Controllers and databases that are killed again and again: a suite of its own, as it takes a minute or two. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["**/*.test.ts"],
    pool: "forks",
    maxWorkers: 1,
    testTimeout: 480_000,
    hookTimeout: 120_000,
    reporters: process.env.SALLYPORT_REPORT
      ? ["default", ["json", { outputFile: process.env.SALLYPORT_REPORT }]]
      : ["default"],
  },
});
