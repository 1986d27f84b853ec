import { writeFileSync } from "node:fs";
import { findTools, NoClusterError } from "./tools.ts";

/** Gets the programs of a cluster before the first suite; without them all are skipped, loudly, here and in a whole run. */
export function setup(): void {
  try {
    findTools();
  } catch (error) {
    if (!(error instanceof NoClusterError)) throw error;
    console.warn(`\n*** THE SUITES ON A CLUSTER ARE SKIPPED: ${error.message}\n`);
    const report = process.env.SALLYPORT_REPORT;
    if (report) writeFileSync(`${report}.skipped`, error.message);
  }
}
