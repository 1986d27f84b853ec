import { expect, test } from "vitest";
import { shownText } from "./shown-text.ts";

test("a claim is shown with at most 100 characters, none of them halved", () => {
  expect(shownText("x".repeat(100))).toBe("x".repeat(100));
  expect(shownText("x".repeat(101))).toBe(`${"x".repeat(99)}…`);
  expect(shownText("x".repeat(1_000_000))).toHaveLength(100);
  expect(shownText(`${"x".repeat(98)}😀😀`)).toBe(`${"x".repeat(98)}…`);
  expect(shownText("abcdef", 4)).toBe("abc…");
});
