import { createHmac } from "node:crypto";

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LENGTH = 22;

/**
 * The id of a terminator that this router hosts by itself: the same after a restart, so that the one that is still
 * known at the controller is taken up again, and nobody else can know it beforehand.
 *
 * @param secret something only this router has
 * @param parts what the terminator is for
 */
export function terminatorId(secret: string, parts: readonly (string | number)[]): string {
  const bytes = createHmac("sha256", secret)
    .update(JSON.stringify(["tunnel terminator", ...parts]))
    .digest();
  let rest = BigInt(`0x${bytes.subarray(0, 16).toString("hex")}`);
  let id = "";
  for (let at = 0; at < LENGTH; at++) {
    id = (DIGITS[Number(rest % 62n)] ?? "0") + id;
    rest /= 62n;
  }
  return id;
}
