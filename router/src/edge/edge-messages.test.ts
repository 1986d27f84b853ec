import { expect, test } from "vitest";
import { saysDatagrams } from "./edge-messages.ts";

test.each([
  ['{"dst_protocol":"udp","dst_ip":"192.0.2.1"}', true],
  ['{"connType":"resolver"}', true],
  ['{"dst_protocol":"tcp"}', false],
  ['{"dst_protocol":["udp"]}', false],
  ["{}", false],
  ["", false],
  ['"udp"', false],
  ["null", false],
  ["[1]", false],
  ['{"dst_protocol":"udp"', false],
  ["\u0000\u0001 no JSON at all", false],
  [`{"dst_protocol":"udp","more":"${"x".repeat(5_000)}"}`, false],
])("app data %s", (text, expected) => {
  expect(saysDatagrams(Buffer.from(text))).toBe(expected);
});

test("no app data is no datagrams", () => {
  expect(saysDatagrams(undefined)).toBe(false);
});
