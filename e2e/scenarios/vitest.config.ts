import { defineConfig } from "vitest/config";
import { project, run } from "../../scripts/vitest-defaults.ts";

const FOLDER = "e2e/scenarios";
const ALONE = `${FOLDER}/**/*.alone.test.ts`;
const OWN = `${FOLDER}/install/**/*.test.ts`;
const patient = {
  ...project,
  testTimeout: 600_000,
  hookTimeout: 600_000,
} as const;
const shared = { ...patient, globalSetup: [`${FOLDER}/setup.ts`] };

export default defineConfig({
  test: {
    projects: [
      {
        // In one cluster with one operator, each file in a namespace of its own.
        test: {
          ...shared,
          name: "shared",
          include: [`${FOLDER}/**/*.test.ts`],
          exclude: [OWN, ALONE],
          // They wait for pods most of the time.
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        // In the same cluster, one after the other: what stops parts of it, or the operator, would disturb the others.
        test: { ...shared, name: "alone", include: [ALONE], maxWorkers: 1, sequence: { groupOrder: 2 } },
      },
      {
        // Each file starts a cluster.
        test: {
          ...patient,
          name: "own",
          globalSetup: [`${FOLDER}/setup-own.ts`],
          include: [OWN],
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
    ],
    // The shared cluster is looked at once more, and closed.
    teardownTimeout: 60_000,
    ...run,
  },
});
