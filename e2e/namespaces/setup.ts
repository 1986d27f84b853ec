import { announceSkip } from "../../scripts/run/skipped.ts";

/** Says why the suite is skipped, where it is. */
export function setup(): void {
  if (process.env.SALLYPORT_IN_NAMESPACE !== undefined) return;
  const reason =
    process.env.SALLYPORT_NO_NAMESPACES ?? "it was not started by e2e/namespaces/run.ts (npm run test:namespaces)";
  announceSkip("THE SUITES IN NETWORK NAMESPACES", reason);
}
