import type { Owner } from "../ownership.ts";
import type { Surroundings } from "../plan.ts";
import type { Resolution } from "../references.ts";

export const OWNER: Owner = { cluster: "c-1", kind: "Sample", namespace: "default", name: "sample", uid: "u-1" };

/** Surroundings in which `references` (`Kind/name`) resolve to ids, one if a text is given. */
export function surroundings(
  references: Readonly<Record<string, string | Resolution>> = {},
  roleScope: "Global" | "Namespaced" = "Global",
): Surroundings {
  const resolved = Object.entries(references).map(
    ([key, value]) => [key, typeof value === "string" ? { ids: [value] } : value] as const,
  );
  return { owner: OWNER, scope: { roleScope, namespace: "default" }, references: new Map(resolved) };
}
