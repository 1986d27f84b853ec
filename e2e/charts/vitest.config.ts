import { announceSkip } from "../../scripts/run/skipped.ts";
import { suite } from "../../scripts/vitest-defaults.ts";
import { NoToolError, toolPath } from "./helm.ts";

/** Why the charts cannot be tested here; a whole run says it, too. */
function obstacle(): string | undefined {
  try {
    toolPath("helm");
    toolPath("kubeconform");
    return undefined;
  } catch (error) {
    if (!(error instanceof NoToolError)) throw error;
    announceSkip("THE SUITES OF THE CHARTS", error.message);
    return error.message;
  }
}

export default suite(import.meta.dirname, {
  ...(obstacle() !== undefined && { include: [] }),
  passWithNoTests: true,
  globalSetup: ["../cluster/setup.ts"],
  // A cluster is a dozen processes.
  maxWorkers: 1,
  testTimeout: 180_000,
  hookTimeout: 240_000,
});
