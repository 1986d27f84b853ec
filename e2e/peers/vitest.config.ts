import { defineConfig } from "vitest/config";
import { project, run } from "../../scripts/vitest-defaults.ts";

// Every file starts whole networks of processes.
const shared = {
  root: import.meta.dirname,
  ...project,
  testTimeout: 120_000,
  hookTimeout: 180_000,
} as const;
// No more of them at a time than cores that every machine has.
const two = { ...shared, maxWorkers: 2 } as const;
const alone = ["clean-path.test.ts"];
const terraform = ["terraform/*.test.ts"];

/** The suites that need the peer's programs; each project's `setup.ts` builds them or says loudly why its suites are skipped. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    projects: [
      {
        test: {
          ...two,
          name: "two at a time",
          include: ["**/*.test.ts"],
          exclude: [...alone, ...terraform],
          globalSetup: ["./setup.ts"],
        },
      },
      // Its programs are built only when it runs.
      { test: { ...two, name: "Terraform", include: terraform, globalSetup: ["./terraform/setup.ts"] } },
      // What another load would spoil.
      {
        test: {
          ...shared,
          name: "alone",
          include: alone,
          globalSetup: ["./setup.ts"],
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
    ],
    ...run,
  },
});
