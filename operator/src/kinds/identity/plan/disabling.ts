import type { EntityResource } from "../../../entity/plan.ts";
import type { IdentitySpec } from "../schema.ts";
import type { FoundIdentity } from "./entity.ts";

/** Condition of an identity that the spec locks out. */
export const DISABLED = "Disabled";

/** Tag of an identity that the spec locks out: the lock is the resource's own, and the resource may take it away. */
const MARK = "sallyport-disabled";

/** The resource with the tag among those that its identity is to have. */
export function withDisablingMark<R extends EntityResource<IdentitySpec>>(resource: R): R {
  const { spec } = resource;
  return spec.disabled ? { ...resource, spec: { ...spec, tags: { ...spec.tags, [MARK]: "true" } } } : resource;
}

export const hasDisablingMark = ({ tags }: Pick<FoundIdentity, "tags">): boolean => tags?.[MARK] === "true";

export type DisablingPlan =
  | { readonly action: "none" }
  | { readonly action: "disable" | "enable" }
  /** Others locked it out: an administrator, or the network after too many wrong passwords. That stays. */
  | { readonly action: "leave"; readonly message: string };

/**
 * Whether to lock an identity out or let it in. Only what the resource locked out is let in again by it: else it would undo the protection
 * against guessed passwords, and what an administrator does in an emergency.
 * @param isOurs the resource locked it out before
 */
export function planDisabling(
  wanted: boolean,
  { disabled, disabledUntil }: Pick<FoundIdentity, "disabled" | "disabledUntil">,
  isOurs: boolean,
): DisablingPlan {
  if (wanted) return disabled && disabledUntil === undefined ? { action: "none" } : { action: "disable" };
  if (!disabled) return { action: "none" };
  // With an end it is not ours: the spec knows none.
  if (isOurs && disabledUntil === undefined) return { action: "enable" };
  const until = disabledUntil === undefined ? "" : ` until ${disabledUntil}`;
  const message = `the identity is locked out in the network${until}, by an administrator or after wrong passwords: let it in there, or set spec.disabled to true and then to false`;
  return { action: "leave", message };
}
