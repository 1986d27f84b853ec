import { expect, it } from "vitest";
import { accepts, asksFor } from "./accept.ts";

it.each([
  [undefined, true, false],
  [" ", true, false],
  ["*/*", true, false],
  ["application/*", true, false],
  ["text/html, application/json;q=0.5", true, true],
  ["APPLICATION/JSON; charset=utf-8", true, true],
  ["application/json;q=0.0", false, false],
  ["application/json;q=0, */*", true, false],
  ["text/plain", false, false],
])("Accept %j: allows JSON %s, asks for it %s", (accept, isAllowed, isAsked) => {
  expect(accepts(accept, "application/json")).toBe(isAllowed);
  expect(asksFor(accept, "application/json")).toBe(isAsked);
});
