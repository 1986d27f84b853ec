import { meanings, sharedName } from "./meanings.ts";
import { idleReason } from "./without-effect.ts";

/** What a key is for, by its name on the reference page, or why it changes nothing; empty for a key that nobody described. */
export function meaningOf(name: string): string {
  const reason = idleReason(name);
  return reason === undefined ? (meanings[sharedName(name)] ?? "") : `Without effect: ${reason}.`;
}
