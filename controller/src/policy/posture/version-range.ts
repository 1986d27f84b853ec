import semver from "semver";

const OPTIONS = { includePrerelease: true } as const;

/**
 * A range of semantic versions as posture checks write them: comparators side by side all hold (`>=10.0.0 <11.0.0`), `||` parts alternatives,
 * and `!1.2.3` or `!=1.2.3` excludes one version.
 */
export interface VersionRange {
  includes(version: string): boolean;
}

/** The range that a text means; undefined when it is none. */
export function parseVersionRange(text: string): VersionRange | undefined {
  const alternatives: { within: semver.Range; without: semver.Range[] }[] = [];
  for (const part of text.split("||")) {
    const words = part.trim().split(/\s+/);
    const excluded = words.filter((word) => word.startsWith("!")).map((word) => word.replace(/^!=?/, ""));
    const kept = words.filter((word) => !word.startsWith("!")).join(" ");
    if (part.trim() === "" || excluded.includes("")) return undefined;
    try {
      alternatives.push({
        within: new semver.Range(kept, OPTIONS),
        without: excluded.map((each) => new semver.Range(each, OPTIONS)),
      });
    } catch {
      return undefined;
    }
  }
  return {
    includes(version) {
      const parsed = semver.parse(version.trim());
      if (parsed === null) return false;
      return alternatives.some(
        ({ within, without }) => within.test(parsed) && !without.some((range) => range.test(parsed)),
      );
    },
  };
}
