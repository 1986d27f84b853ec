import { expect, test } from "vitest";
import { keptOf } from "./observe.ts";

test.each([
  [
    { ctrlChanListeners: { "tls:a:1": ["x"] }, configs: ["c"] },
    { ctrlChanListeners: { "tls:a:1": ["x"] }, configs: ["c"] },
  ],
  [{ configs: null }, { configs: [] }],
  [{}, {}],
])("a replacement of a router that has %j says %j", (found, kept) => {
  expect(keptOf(found)).toEqual(kept);
});
