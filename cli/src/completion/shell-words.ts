/** Bash hands over words as they were typed. */

/** The word without backslashes and quotation marks; nothing in it is expanded. */
export function unquoted(word: string): string {
  let text = "";
  let quote = "";
  for (let at = 0; at < word.length; at++) {
    const character = word[at] ?? "";
    if (character === "\\" && quote !== "'") text += word[++at] ?? "";
    else if (quote === "" && (character === "'" || character === '"')) quote = character;
    else if (character === quote) quote = "";
    else text += character;
  }
  return text;
}
