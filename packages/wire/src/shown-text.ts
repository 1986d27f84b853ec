/** Characters of a claim that a line or an event shows. */
const MAX_SHOWN = 100;

/** What somebody claims, as log lines and events show it: at most so many characters of it, 100 when not given. */
export function shownText(text: string, most: number = MAX_SHOWN): string {
  // A character may be two code units, of which none is shown without the other.
  return text.length <= most
    ? text
    : `${text
        .slice(0, most - 1)
        .toWellFormed()
        .replace(/\uFFFD$/, "")}…`;
}
