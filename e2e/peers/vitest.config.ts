import { defineConfig } from "vitest/config";
import { project, run } from "../../scripts/vitest-defaults.ts";

// Every file starts whole networks of processes.
const shared = {
  root: import.meta.dirname,
  ...project,
  testTimeout: 120_000,
  hookTimeout: 180_000,
} as const;
const alone = ["clean-path.test.ts"];

/** The suites that need OpenZiti's program; `setup.ts` builds it or says why they are skipped. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    globalSetup: ["./setup.ts"],
    projects: [
      // No more of them at a time than cores that every machine has.
      { test: { ...shared, name: "two at a time", include: ["**/*.test.ts"], exclude: alone, maxWorkers: 2 } },
      // What another load would spoil.
      { test: { ...shared, name: "alone", include: alone, maxWorkers: 1, sequence: { groupOrder: 1 } } },
    ],
    ...run,
  },
});
