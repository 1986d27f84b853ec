/** Names of identities that enroll by themselves (docs/protocol/enrollment.md, "Third-party certificates"). */

export interface NameParts {
  readonly caName: string;
  readonly caId: string;
  readonly commonName: string;
  readonly requestedName: string;
  readonly identityId: string;
}

const DEFAULT_FORMAT = "[caName]-[commonName]";
const MAX_NAME_LENGTH = 200;

/** Control characters, line breaks, and characters that turn the direction of the text after them (Unicode Standard Annex 9, section 2). */
const UNPLAIN = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/** Does a reader see what the text says? */
export function isPlainText(text: string): boolean {
  return text.isWellFormed() && text.search(UNPLAIN) < 0;
}

/** Puts the parts into the format; a symbol inside a part stays as it is. Leaves out what is not plain text, and cuts the name to 200 characters. */
export function identityName(format: string, parts: NameParts): string {
  const known = new Map<string, string>(Object.entries(parts));
  const name = (format || DEFAULT_FORMAT).replace(/\[(\w+)\]/g, (symbol, part: string) => known.get(part) ?? symbol);
  const printable = name.toWellFormed().replace(UNPLAIN, "");
  return [...printable].slice(0, MAX_NAME_LENGTH).join("").trim();
}

/** The n-th name to try when a name is taken; n from 1. */
export function numberedName(name: string, n: number): string {
  return `${name}${String(n).padStart(6, "0")}`;
}
