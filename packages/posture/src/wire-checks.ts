import type { edgeCtrlPb } from "@sallyport/wire";
import { mfaExpiresAt } from "./mfa.ts";
import type { CheckOf } from "./posture-type.ts";
import { type PostureCheck, type PostureState, passes, postureTypes } from "./types.ts";

/**
 * Posture checks as a router gets and decides them. The rules are those of the controller: only the way to the check is another one.
 * Source: docs/protocol/data-model.md, "Posture checks".
 */

const NO_TIME = new Date(0);

/** The check that a controller put into the data model. One whose form is unknown becomes a check that no device passes. */
export function checkOfWire({ id, name, subtype }: edgeCtrlPb.DataState_PostureCheck): PostureCheck {
  const common = { id, name, createdAt: NO_TIME, updatedAt: NO_TIME };
  for (const [typeId, type] of postureTypes()) {
    const fields = type.ofWire(subtype);
    if (fields !== undefined) return { ...common, typeId, ...fields } as PostureCheck;
  }
  return impossibleCheck(id, name);
}

/** A check that no device passes. */
export function impossibleCheck(id: string, name: string): CheckOf<"DOMAIN"> {
  return { id, name, createdAt: NO_TIME, updatedAt: NO_TIME, typeId: "DOMAIN", domains: [] };
}

/** Do all checks of a policy pass at this moment (milliseconds since 1970)? `failing`: ids of those that do not. */
export function evaluate(
  checks: readonly PostureCheck[],
  known: PostureState,
  now: number,
): { readonly isPassing: boolean; readonly failing: readonly string[] } {
  const failing = checks.filter((check) => !passes(check, known, now)).map(({ id }) => id);
  return { isPassing: failing.length === 0, failing };
}

/** When a check comes to fail by time alone, in milliseconds since 1970; undefined: never. */
export function expiresAt(check: PostureCheck, { session }: PostureState): number | undefined {
  return check.typeId === "MFA" ? mfaExpiresAt(check, session) : undefined;
}
