import { announceSkip } from "../../scripts/run/skipped.ts";
import { findTools, NoClusterError } from "./tools.ts";

/** Gets the programs of a cluster before the first suite; without them all are skipped, and that is said here and in a whole run. */
export function setup(): void {
  try {
    findTools();
  } catch (error) {
    if (!(error instanceof NoClusterError)) throw error;
    announceSkip("THE SUITES ON A CLUSTER", error.message);
  }
}
