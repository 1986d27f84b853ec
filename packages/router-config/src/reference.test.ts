import { expect, it } from "vitest";
import { configReference } from "./reference.ts";

it("the reference page names keys, bounds and defaults", () => {
  const page = configReference();
  for (const row of [
    "| `forwarder.rateLimitedWorkerCount` | an integer from 1 to 10000 | `5` |",
    "| `link.dialers[].healthyDialBackoff.minRetryInterval` | a duration with a unit, such as 5s or 1m30s, from 10ms to 24h | `5s` |",
    "| `identity.cert` | a file or inline PEM with the client certificate | required |",
    "| `listeners[edge].options.lookupApiSessionTimeout` |",
  ]) {
    expect(page).toContain(row);
  }
});
