import { announceSkip } from "../../scripts/run/skipped.ts";
import { NoClusterError } from "../cluster/tools.ts";

/** Says, here and in a whole run, that scenarios are skipped. @throws the error when it is another than that there can be no cluster */
export function skip(error: unknown): void {
  if (!(error instanceof NoClusterError)) throw error;
  announceSkip("THE SCENARIOS ON A CLUSTER", `E2E_CLUSTER=${process.env.E2E_CLUSTER ?? "local"}: ${error.message}`);
}
