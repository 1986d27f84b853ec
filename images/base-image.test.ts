import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { basesOf, isPinned, pinned } from "./base-image.ts";

const ROOT = join(import.meta.dirname, "..");
const DIGEST = `sha256:${"ab".repeat(32)}`;

it.each([
  ["scratch", true],
  [`node@${DIGEST}`, true],
  [`registry.example:5000/node:26-bookworm@${DIGEST}`, true],
  ["localhost/builder:1", true],
  ["node:26-bookworm", false],
  ["node", false],
  ["node@sha256:abc", false],
  [`node@${DIGEST}00`, false],
  ["", false],
])("%s always names the same image: %s", (image, expected) => {
  expect(isPinned(image)).toBe(expected);
});

it("an argument that names an image which may change is refused, and told how to find its digest", () => {
  expect(pinned("BUILDER", `node@${DIGEST}`)).toBe(`node@${DIGEST}`);
  expect(() => pinned("BUILDER", "node:26-bookworm")).toThrow(
    /^BUILDER: .*@sha256:.*found node:26-bookworm; .*docker:\/\/node:26/,
  );
});

describe("Containerfiles", () => {
  it("are read with their arguments and stages", () => {
    const text = `ARG A=one\nARG B\nFROM \${A} AS build\nARG C=two\nFROM \${B}\nFROM build\nFROM three@sha256:1\n`;
    expect(basesOf(text)).toEqual(["one", "", "three@sha256:1"]);
  });

  const files = globSync("{images,examples}/*/Containerfile", { cwd: ROOT });

  it("are found", () => expect(files.length).toBeGreaterThanOrEqual(5));

  it.each(files)("%s stands on nothing that may change under its name", (file) => {
    const bases = basesOf(readFileSync(join(ROOT, file), "utf8"));
    expect(bases.filter((base) => !isPinned(base))).toEqual([]);
    expect(bases.filter((base) => base.includes("@sha256:"))).toHaveLength(1);
  });
});
