import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const page = readFileSync(new URL("../docs/security.md", import.meta.url), "utf8");
const rows = page
  .split("\n")
  .map((line) => line.split("|").map((cell) => cell.trim()))
  .filter(([, id]) => id !== undefined && /^(GHSA-|#|\d+\.\d+\.\d+$)/.test(id))
  .map(([, id = "", , tests = ""]) => ({ id, files: [...tests.matchAll(/`([^`]+)`/g)].map(([, file = ""]) => file) }));

describe("docs/security.md", () => {
  it("has every advisory", () => {
    expect(rows.filter(({ id }) => id.startsWith("GHSA-"))).toHaveLength(11);
    expect(rows.every(({ files }) => files.length > 0)).toBe(true);
  });

  it.each(rows.flatMap(({ id, files }) => files.map((file) => [id, file])))("%s has its test in %s", (id, file) => {
    const source = readFileSync(new URL(`../${file}`, import.meta.url), "utf8");
    // A name of a test, or of a group, at the beginning of a line or right behind `describe(` and the like.
    expect(source).toMatch(new RegExp(`(?:^\\s*|\\()["\`]${id}: `, "m"));
  });
});
