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

/** Puts the parts into the format; a symbol inside a part stays as it is. Removes control characters and cuts the name to 200 characters. */
export function identityName(format: string, parts: NameParts): string {
  const known = new Map<string, string>(Object.entries(parts));
  const name = (format || DEFAULT_FORMAT).replace(/\[(\w+)\]/g, (symbol, part: string) => known.get(part) ?? symbol);
  const printable = name.toWellFormed().replace(/\p{Cc}/gu, "");
  return [...printable].slice(0, MAX_NAME_LENGTH).join("").trim();
}

/** The n-th name to try when a name is taken; n from 1. */
export function numberedName(name: string, n: number): string {
  return `${name}${String(n).padStart(6, "0")}`;
}
