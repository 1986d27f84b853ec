import { describe, expect, it } from "vitest";
import { ChangelogError, changesOf } from "./changelog.ts";

const CHANGELOG = `# Changelog

## [Unreleased]

## [1.1.0] - 2026-02-03

### Fixed

- One thing.

## [1.0.0] - 2026-01-02

The first.
`;

describe("the changelog", () => {
  it("tells of a version what stands below its heading", () => {
    expect(changesOf(CHANGELOG, "1.1.0")).toBe("### Fixed\n\n- One thing.");
    expect(changesOf(CHANGELOG, "1.0.0")).toBe("The first.");
  });
  it.each<[string, string, string]>([
    ["1.2.0", CHANGELOG, "there is no entry for 1.2.0"],
    ["1.0", CHANGELOG, "there is no entry for 1.0"],
    ["Unreleased", CHANGELOG, "the entry for Unreleased is empty"],
    ["1.1.0", CHANGELOG.replace(" - 2026-02-03", ""), "line 5: expected"],
    ["1.1.0", CHANGELOG.replace("2026-02-03", "3 Feb 2026"), "line 5: expected"],
    ["1.1.0", CHANGELOG.replace("### Fixed", "### Repaired"), '"### Repaired" is none of Added'],
  ])("is refused for %s: %#", (version, text, message) => {
    expect(() => changesOf(text, version)).toThrow(ChangelogError);
    expect(() => changesOf(text, version)).toThrow(message);
  });
});
