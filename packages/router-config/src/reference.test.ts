import { expect, it } from "vitest";
import { meanings, sharedName } from "./meanings.ts";
import { configKeys, configReference } from "./reference.ts";
import { meaningOf } from "./shape.ts";
import { WITHOUT_EFFECT } from "./without-effect.ts";

it("the reference page names keys, bounds and defaults", () => {
  const page = configReference();
  for (const row of [
    "| `forwarder.rateLimitedWorkerCount` | Requests for terminators in flight at a time. | an integer from 1 to 10000 | `5` |",
    "that a controller reports as online. | a duration with a unit, such as 5s or 1m30s, from 10ms to 24h | `5s` |",
    "its common name is the router's id. | a file or inline PEM with the client certificate | required |",
    "| `listeners[edge].options.lookupApiSessionTimeout` |",
  ]) {
    expect(page).toContain(row);
  }
});

it("every key has a meaning, a sentence or two; there is none without its key", () => {
  const keys = configKeys();
  expect(keys.length).toBeGreaterThan(200);
  expect(keys.filter((key) => !/^\S.{5,}[.;]$/.test(meaningOf(key)))).toEqual([]);
  const used = new Set(keys.map(sharedName));
  expect(Object.keys(meanings).filter((key) => !used.has(key))).toEqual([]);
  // A key either has its meaning or its reason.
  expect(Object.keys(meanings).filter((key) => key in WITHOUT_EFFECT)).toEqual([]);
});
