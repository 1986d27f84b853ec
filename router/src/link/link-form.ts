/** How the connections of a link belong together. */
export type LinkForm = "grouped" | "split" | "single";

const GROUPED_SINCE = [1, 6, 6] as const;

/**
 * The form in which a router of this version is dialled: grouped since 1.6.6 and for development builds (0.0.0), before
 * that and for texts that are no version a split pair or, with `split: false`, a single connection. A pre-release of 1.6.6
 * comes before it (docs/protocol/links.md, "Forms").
 */
export function linkForm(version: string, split: boolean): LinkForm {
  return speaksGroups(version) ? "grouped" : split ? "split" : "single";
}

function speaksGroups(version: string): boolean {
  const match = /^v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?$/.exec(version);
  if (match === null) return false;
  const numbers = [Number(match[1]), Number(match[2]), Number(match[3])];
  if (numbers.every((n) => n === 0)) return true;
  for (const [i, since] of GROUPED_SINCE.entries()) {
    const number = numbers[i] ?? 0;
    if (number !== since) return number > since;
  }
  return match[4] === undefined;
}
