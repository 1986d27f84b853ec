import { defineConfig } from "vitest/config";
import { project, run } from "./scripts/vitest-defaults.ts";

// Real PostgreSQL, TLS and child processes.
const shared = { ...project, testTimeout: 30_000, hookTimeout: 60_000 } as const;
// What ends with its tests and leaves nothing behind: its files share a process, which loads the same modules once.
const leaveNothing = [
  "scripts/**/*.test.ts",
  "images/**/*.test.ts",
  "{controller,operator,cli,packages/{api,config-file,controller-config,router-config,posture,resources}}/src/**/*.test.ts",
  "e2e/system/operator/**/*.test.ts",
];

// They replace modules, which others in the process would have loaded before.
const mocking = ["controller/src/store/postgres/long-work.test.ts"];

export default defineConfig({
  test: {
    projects: [
      { test: { ...shared, name: "one process", include: leaveNothing, exclude: mocking, isolate: false } },
      { test: { ...shared, name: "mocking", include: mocking } },
      {
        test: {
          ...shared,
          name: "own process",
          include: ["{packages/*,router}/src/**/*.test.ts", "e2e/system/**/*.test.ts"],
          exclude: leaveNothing,
        },
      },
    ],
    // One embedded PostgreSQL for the whole run, started when the first test asks for a store.
    globalSetup: ["controller/src/store/testing/test-server.ts"],
    // Two workers keep two cores busy without starving timers.
    maxWorkers: 2,
    ...run,
  },
});
