import { randomUUID } from "node:crypto";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LENGTH = 22;

/** A random UUID as 22 base-62 digits: the form of circuit, link and xgress ids. */
export function randomBase62Id(): string {
  return base62Id(randomUUID().replaceAll("-", ""));
}

/** 16 bytes, given as hex digits, in the same form. */
export function base62Id(hex: string): string {
  let rest = BigInt(`0x${hex}`);
  let text = "";
  while (text.length < LENGTH) {
    text = ALPHABET.charAt(Number(rest % 62n)) + text;
    rest /= 62n;
  }
  return text;
}
