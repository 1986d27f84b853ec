/** Query parameters that several lists share. */
import { z } from "zod";
import { names, semantic } from "../schema/scalars.ts";

/** Select by role: each `roleFilter` is `#attribute` or `@id`; attributes are combined by `roleSemantic` (default `AllOf`). */
export const roleParameters = { roleFilter: names.optional(), roleSemantic: semantic.optional() };

/** Restrict a relation that goes through service policies to one kind of access. */
export const policyType = { policyType: z.enum(["dial", "bind"]).optional() };
