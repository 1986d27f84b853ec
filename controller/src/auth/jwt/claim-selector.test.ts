import { expect, test } from "vitest";
import { isClaimSelector, textAt, textsAt } from "./claim-selector.ts";

const payload = {
  ...{ sub: "me", count: 5, empty: "", "https://idp.example/roles": "named", "a/b": "flat", "m~n": "tilde" },
  realm: { roles: ["x", "", "y"], owner: { name: "deep" } },
  mixed: ["x", 1],
  nothing: null,
};

test.each([
  ["sub", "me"],
  ["/sub", "me"],
  ["https://idp.example/roles", "named"],
  ["a/b", "flat"],
  ["/a~1b", "flat"],
  ["/m~0n", "tilde"],
  ["/realm/owner/name", "deep"],
  ["/realm/roles/2", "y"],
  ["realm.owner.name", undefined],
  ["count", undefined],
  ["empty", undefined],
  ["/realm", undefined],
  ["/realm/roles/length", undefined],
  ["/realm/roles/9", undefined],
  ["/sub/length", undefined],
  ["constructor", undefined],
  ["/__proto__/x", undefined],
  ["/", undefined],
])("the text at %s is %s", (selector, text) => {
  expect(textAt(payload, selector)).toBe(text);
});

test.each([
  ["sub", ["me"]],
  ["/realm/roles", ["x", "y"]],
  ["empty", []],
  ["absent", []],
  ["nothing", []],
  ["mixed", undefined],
  ["count", undefined],
  ["realm", undefined],
])("the texts at %s are %j", (selector, texts) => {
  expect(textsAt(payload, selector)).toEqual(texts);
});

test.each([
  ["sub", true],
  ["a~b", true],
  ["/a/b~0~1", true],
  ["/", true],
  ["/a~2", false],
  ["/a~", false],
])("is %s a selector: %s", (selector, isOne) => {
  expect(isClaimSelector(selector)).toBe(isOne);
});
