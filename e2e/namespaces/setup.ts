import { writeFileSync } from "node:fs";

/** Says loudly why the suite is skipped, here and beside the report for the closing line of a whole run. */
export function setup(): void {
  if (process.env.SALLYPORT_IN_NAMESPACE !== undefined) return;
  const reason =
    process.env.SALLYPORT_NO_NAMESPACES ?? "it was not started by e2e/namespaces/run.ts (npm run test:namespaces)";
  console.warn(`\n*** THE SUITES IN NETWORK NAMESPACES ARE SKIPPED: ${reason}\n`);
  const report = process.env.SALLYPORT_REPORT;
  if (report) writeFileSync(`${report}.skipped`, reason);
}
