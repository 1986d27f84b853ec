import { writeFileSync } from "node:fs";
import { NoClusterError } from "../cluster/tools.ts";

/** Says loudly, here and in a whole run, that scenarios are skipped. @throws the error when it is another than that there can be no cluster */
export function skip(error: unknown): void {
  if (!(error instanceof NoClusterError)) throw error;
  const why = `E2E_CLUSTER=${process.env.E2E_CLUSTER ?? "local"}: ${error.message}`;
  console.warn(`\n*** THE SCENARIOS ON A CLUSTER ARE SKIPPED: ${why}\n`);
  const report = process.env.SALLYPORT_REPORT;
  if (report) writeFileSync(`${report}.skipped`, why);
}
