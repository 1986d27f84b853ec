/** How many columns of a terminal a text takes. */
import stringWidth from "string-width";

const ASCII = /^[\x20-\x7e]*$/;

export function textWidth(text: string): number {
  return ASCII.test(text) ? text.length : stringWidth(text);
}

/** The text with blanks behind it. */
export function padded(text: string, width: number): string {
  return text + " ".repeat(Math.max(width - textWidth(text), 0));
}

/** The beginning of a text that is too wide, with `…`. */
export function shortened(text: string, width: number): string {
  if (textWidth(text) <= width) return text;
  let part = "";
  let used = 0;
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    const next = textWidth(segment);
    if (used + next > width - 1) break;
    part += segment;
    used += next;
  }
  return `${part}…`;
}
