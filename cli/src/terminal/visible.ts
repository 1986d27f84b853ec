/** Text of servers as a terminal may show it. */

/**
 * Control characters, and format characters such as those that turn the direction of text. Joiners inside words and emoji stay:
 * U+200C, U+200D.
 */
const UNPRINTABLE =
  /[\p{Cc}\p{Zl}\p{Zp}\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu;

/** The text with escapes in place of characters that could move the cursor, hide text or turn its direction. */
export function visible(text: string): string {
  return text.replaceAll(UNPRINTABLE, escapeOf);
}

/** The same for text of several lines, whose line feeds stay. */
export function visibleLines(text: string): string {
  return text.replaceAll(UNPRINTABLE, (character) => (character === "\n" ? character : escapeOf(character)));
}

/** JSON with the same value and escapes for such characters: they only occur in its strings. */
export function visibleJson(json: string): string {
  return json.replaceAll(UNPRINTABLE, (character) => (character === "\n" ? character : `\\u${hex(character, 4)}`));
}

function escapeOf(character: string): string {
  if (character === "\n") return "\\n";
  if (character === "\t") return "\\t";
  const code = character.codePointAt(0) ?? 0;
  return code < 0x100 ? `\\x${hex(character, 2)}` : `\\u${hex(character, 4)}`;
}

function hex(character: string, digits: number): string {
  return (character.codePointAt(0) ?? 0).toString(16).padStart(digits, "0");
}
