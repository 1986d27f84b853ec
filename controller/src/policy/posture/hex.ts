/** Hex digits in lower case, without the colons, dashes and other separators between them. */
export function hexDigits(text: string): string {
  return text.toLowerCase().replaceAll(/[^0-9a-f]/g, "");
}

export function isKnownHex(known: ReadonlySet<string>, text: string): boolean {
  const digits = hexDigits(text);
  return digits !== "" && known.has(digits);
}
