import { z } from "zod";

/** A mapping with these keys. Other keys are ignored with a warning, because every other reader of these files ignores them. */
export function section<const Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  return z.object(shape, { error: (issue) => (issue.code === "invalid_type" ? "a mapping" : undefined) });
}

/** A key that other programs write or read and that means nothing here; `without-effect.ts` says why. */
export const ignored = () => z.unknown().optional();
