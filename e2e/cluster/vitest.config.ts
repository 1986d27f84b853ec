import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["e2e/cluster/**/*.test.ts"],
    globalSetup: ["e2e/cluster/setup.ts"],
    pool: "forks",
    // A cluster is a dozen processes.
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 240_000,
    reporters: process.env.SALLYPORT_REPORT
      ? ["default", ["json", { outputFile: process.env.SALLYPORT_REPORT }]]
      : ["default"],
  },
});
