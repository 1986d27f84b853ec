import { expect, test } from "vitest";
import { ProtocolError } from "./errors.ts";
import { randomBase62Id } from "./ids.ts";
import { isAtLeast, parseVersionInfo, versionInfo } from "./version.ts";

test("our version info names a generation that peers accept", () => {
  const info = parseVersionInfo(versionInfo());
  expect(info.version).toBe("v1.6.20");
  expect(versionInfo().split("|").length).toBe(5);
});

test("version info is five fields", () => {
  expect(parseVersionInfo("v1.6.20|d7878c55e070|2026-08-20 19:52:11|linux|amd64")).toEqual({
    version: "v1.6.20",
    revision: "d7878c55e070",
    buildDate: "2026-08-20 19:52:11",
    os: "linux",
    arch: "amd64",
  });
  expect(parseVersionInfo("0.0.0|||linux|amd64").version).toBe("0.0.0");
  expect(parseVersionInfo("1.6.6-pre1|a|b|c|d").version).toBe("1.6.6-pre1");
});

test.each(["", "v1.6.20", "v1|a|b|c", "v1|a|b|c|d|e", "latest|a|b|c|d", "{}|a|b|c|d"])("%j is refused", (text) => {
  expect(() => parseVersionInfo(text)).toThrow(ProtocolError);
});

test("ids are 22 base-62 digits", () => {
  const ids = new Set(Array.from({ length: 1000 }, randomBase62Id));
  expect(ids.size).toBe(1000);
  for (const id of ids) {
    expect(id).toMatch(/^[0-9A-Za-z]{22}$/);
  }
});

test.each([
  ["v1.6.20", true],
  ["v1.6.16", true],
  ["2.0.0", true],
  ["v0.0.0", true],
  ["v1.6.16-pre1", false],
  ["v1.6.15", false],
  ["v1.6.0", false],
  ["", false],
  ["latest", false],
])("whether %j is at least 1.6.16: %j", (version, answer) => {
  expect(isAtLeast(version, [1, 6, 16])).toBe(answer);
});
