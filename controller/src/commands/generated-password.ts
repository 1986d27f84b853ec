import { randomInt } from "node:crypto";

const LENGTH = 20;
// Without letters and digits that look alike.
const ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789";

/** A password of 20 characters, 116 bits of chance, which is easy to copy by hand. */
export function generatedPassword(): string {
  return Array.from({ length: LENGTH }, () => ALPHABET.charAt(randomInt(ALPHABET.length))).join("");
}
