import { writeFileSync } from "node:fs";

/**
 * Says that suites are skipped, and why: here, and beside the report for the closing line of a whole run.
 * @param inReport the reason in one line, where it has several; empty when it is not why tests of this run are skipped in general
 */
export function announceSkip(suites: string, reason: string, inReport = reason): void {
  console.warn(`\n*** ${suites} ARE SKIPPED: ${reason}\n`);
  const report = process.env.SALLYPORT_REPORT;
  if (report && inReport !== "") writeFileSync(`${report}.skipped`, inReport);
}
