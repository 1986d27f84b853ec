import { expect, test } from "vitest";
import { errorText } from "./error-text.ts";

test.each([
  [new TypeError("expected a number"), "expected a number"],
  ["refused", "refused"],
  [undefined, "undefined"],
  [{ code: 1 }, "[object Object]"],
])("the text of %o", (error, text) => {
  expect(errorText(error)).toBe(text);
});
