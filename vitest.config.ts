import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["scripts/*.test.ts", "{packages/*,controller,router}/src/**/*.test.ts", "e2e/system/**/*.test.ts"],
    // One embedded PostgreSQL for the whole run, started when the first test asks for a store.
    globalSetup: ["controller/src/store/postgres/test-server.ts"],
    pool: "forks",
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Real PostgreSQL, TLS and child processes: two workers keep two cores busy without starving timers.
    maxWorkers: 2,
    reporters: process.env.SALLYPORT_REPORT
      ? ["default", ["json", { outputFile: process.env.SALLYPORT_REPORT }]]
      : ["default"],
  },
});
