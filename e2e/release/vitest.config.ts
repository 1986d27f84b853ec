import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["e2e/release/**/*.test.ts"],
    globalSetup: ["e2e/release/setup.ts"],
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 1_200_000,
    hookTimeout: 1_200_000,
    reporters: process.env.SALLYPORT_REPORT
      ? ["default", ["json", { outputFile: process.env.SALLYPORT_REPORT }]]
      : ["default"],
  },
});
