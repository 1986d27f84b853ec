import { createHmac } from "node:crypto";

/** How long a code is that of now. */
export const CODE_STEP_MS = 30_000;

/** The code of an authenticator app now, or some steps away: RFC 6238 with SHA-1, six digits, thirty seconds. */
export function oneTimeCode(secret: string, step = 0): string {
  let bits = "";
  for (const letter of secret) bits += "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(letter).toString(2).padStart(5, "0");
  const key = Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / CODE_STEP_MS) + step));
  const hash = createHmac("sha1", key).update(counter).digest();
  const at = (hash.at(-1) ?? 0) & 15;
  return String((hash.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}
