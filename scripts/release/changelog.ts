/** The changelog does not tell of a version, or is not in the form that it has to have. */
export class ChangelogError extends Error {
  override name = "ChangelogError";
}

const HEADING = /^## \[(?<version>[^\]]+)\](?: - (?<date>\d{4}-\d{2}-\d{2}))?$/;
const SECTIONS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

/**
 * What the changelog says of a version (https://keepachangelog.com): the text below its heading.
 *
 * @throws ChangelogError when it says nothing, has a heading of another form, or a section that it does not know
 */
export function changesOf(changelog: string, version: string): string {
  const lines = changelog.split("\n");
  const headings = lines.flatMap((line, index) => (line.startsWith("## ") ? [{ line, index }] : []));
  for (const { line, index } of headings) {
    if (!HEADING.test(line) || (!line.includes(" - ") && line !== "## [Unreleased]"))
      throw new ChangelogError(
        `line ${index + 1}: expected "## [version] - year-month-day" or "## [Unreleased]", found "${line}"`,
      );
  }
  const section = lines.find((line) => line.startsWith("### ") && !SECTIONS.includes(line.slice("### ".length)));
  if (section !== undefined) throw new ChangelogError(`"${section}" is none of ${SECTIONS.join(", ")}`);
  const at = headings.findIndex(({ line }) => HEADING.exec(line)?.groups?.version === version);
  const heading = headings[at];
  if (heading === undefined)
    throw new ChangelogError(`there is no entry for ${version}: write "## [${version}] - year-month-day"`);
  const text = lines
    .slice(heading.index + 1, headings[at + 1]?.index)
    .join("\n")
    .trim();
  if (text === "") throw new ChangelogError(`the entry for ${version} is empty`);
  return text;
}
